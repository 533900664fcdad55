"""Which metrics are shown, under which name and in which order: on the terminal and on the page.

Owns the list of rows and the comparison against the baseline. Draws nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from runtime.metrics import RunSummary, Spread
from runtime.report import formatting
from runtime.result import BASELINE_LABEL, RunResult, Times

Better: TypeAlias = Literal["lower", "higher"]
SpreadOf: TypeAlias = Callable[[RunSummary], Spread | None]
_Run = TypeVar("_Run", RunResult, RunSummary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric of a comparison.

    Attributes:
        name: What a reader sees.
        value: The metric of a run; None where there is none.
        show: How a value is written.
        better: Which direction is better; None where neither is.
    """

    name: str
    value: Callable[[RunSummary], float | None]
    show: Callable[[float], str]
    better: Better | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One value of a row, ready to be shown.

    Attributes:
        text: The value as text.
        ratio: The value divided by that of the baseline, as text; "" for the baseline itself.
        change: The same as a change in percent; "" where there is no ratio.
        verdict: Whether that is better or worse than the baseline; None if neither.
    """

    text: str
    ratio: str
    change: str
    verdict: Literal["better", "worse"] | None


def _latency(name: str, of: SpreadOf) -> tuple[Row, ...]:
    def row(suffix: str, read: Callable[[Spread], float]) -> Row:
        def value(summary: RunSummary) -> float | None:
            values = of(summary)
            return None if values is None else read(values)

        return Row(name=f"{name} {suffix}", value=value, show=formatting.duration, better="lower")

    return (
        row("p50", lambda values: values.p50),
        row("p90", lambda values: values.p90),
        row("p99", lambda values: values.p99),
    )


_TOKENS: Final = (
    Row(name="hit rate", value=lambda run: run.hit_rate, show=formatting.share, better="higher"),
    Row(name="hit / ceiling", value=lambda run: run.of_ceiling, show=formatting.share, better="higher"),
    Row(name="hit / optimum", value=lambda run: run.of_optimum, show=formatting.share, better="higher"),
    Row(name="prompt tokens", value=lambda run: run.prompt_tokens, show=formatting.count),
    Row(
        name="matched tokens",
        value=lambda run: run.matched_tokens,
        show=formatting.count,
        better="higher",
    ),
    Row(
        name="copied tokens (partial pages)",
        value=lambda run: run.copied_tokens,
        show=formatting.count,
    ),
    Row(
        name="prefill tokens computed",
        value=lambda run: run.computed_prompt_tokens,
        show=formatting.count,
        better="lower",
    ),
    Row(
        name="recomputed tokens (preempted)",
        value=lambda run: run.recomputed_tokens,
        show=formatting.count,
        better="lower",
    ),
    Row(name="output tokens", value=lambda run: run.output_tokens, show=formatting.count),
)

_THROUGHPUT: Final = (
    Row(
        name="output tokens / s",
        value=lambda run: run.output_tokens_per_s,
        show=formatting.rate,
        better="higher",
    ),
    Row(
        name="prompt + output tokens / s",
        value=lambda run: run.total_tokens_per_s,
        show=formatting.rate,
        better="higher",
    ),
    Row(
        name="finished requests / s",
        value=lambda run: run.finished_per_s,
        show=formatting.rate,
        better="higher",
    ),
    Row(
        name="makespan",
        value=lambda run: run.makespan_s,
        show=formatting.duration,
        better="lower",
    ),
)

_QUEUE: Final = (
    Row(name="pages evicted", value=lambda run: run.evictions, show=formatting.count),
    Row(
        name="preemptions",
        value=lambda run: run.preemptions,
        show=formatting.count,
        better="lower",
    ),
    Row(
        name="waiting requests, mean over time",
        value=lambda run: run.mean_waiting,
        show=formatting.count,
        better="lower",
    ),
    Row(
        name="waiting requests, most",
        value=lambda run: run.max_waiting,
        show=formatting.count,
        better="lower",
    ),
    Row(name="running requests, most", value=lambda run: run.max_running, show=formatting.count),
    Row(name="offered load / capacity", value=lambda run: run.offered_load, show=formatting.rate),
    Row(
        name="backlog at the last arrival",
        value=lambda run: run.backlog_at_last_arrival,
        show=formatting.count,
        better="lower",
    ),
)

_REQUESTS: Final = (
    Row(name="requests", value=lambda run: run.submitted, show=formatting.count),
    Row(name="finished", value=lambda run: run.finished, show=formatting.count, better="higher"),
    Row(name="refused", value=lambda run: run.refused, show=formatting.count, better="lower"),
    Row(name="failed", value=lambda run: run.failed, show=formatting.count, better="lower"),
    Row(name="aborted", value=lambda run: run.aborted, show=formatting.count),
    Row(name="unfinished", value=lambda run: run.unfinished, show=formatting.count, better="lower"),
    Row(
        name="no TPOT (under two output tokens)",
        value=lambda run: run.tpot_left_out,
        show=formatting.count,
    ),
)

GROUPS: Final[dict[str, tuple[Row, ...]]] = {
    "Tokens": _TOKENS,
    "Latency": (
        *_latency("TTFT", lambda run: run.ttft_s),
        *_latency("TPOT", lambda run: run.tpot_s),
        *_latency("E2E", lambda run: run.e2e_s),
        *_latency("queue delay", lambda run: run.queue_delay_s),
    ),
    "Throughput": _THROUGHPUT,
    "Cache and queue": _QUEUE,
    "Requests": _REQUESTS,
}
TIMED: Final = ("Latency", "Throughput")
"""Groups that rest on the times of a run."""


def heading(group: str, times: Times) -> str:
    """Name of a group; one that rests on times says on which."""
    return f"{group}, {times} time" if group in TIMED else group


def baseline_first(runs: Sequence[_Run]) -> list[_Run]:
    """Runs or summaries with the baseline (label "no cache") in front, the others in order."""
    return sorted(runs, key=lambda run: run.label != BASELINE_LABEL)


def cells(row: Row, summaries: Sequence[RunSummary]) -> list[Cell]:
    """One cell for each run, compared with the first of them."""
    values = [row.value(summary) for summary in summaries]
    return [_cell(row, value, values[0], number == 0) for number, value in enumerate(values)]


def _cell(row: Row, value: float | None, base: float | None, is_base: bool) -> Cell:
    text = formatting.MISSING if value is None else row.show(value)
    if is_base:
        return Cell(text=text, ratio="", change="", verdict=None)
    if value is None or base is None:
        return Cell(text=text, ratio=formatting.MISSING, change="", verdict=None)
    ratio = formatting.times(value / base) if base else formatting.MISSING
    change = formatting.change(value / base) if base else ""
    return Cell(text=text, ratio=ratio, change=change, verdict=_verdict(row, value, base))


def _verdict(row: Row, value: float, base: float) -> Literal["better", "worse"] | None:
    """Which of the two is better; None where nobody could see a difference."""
    same = value == base or (base != 0 and formatting.times(value / base) == formatting.times(1))
    if row.better is None or same:
        return None
    return "better" if (value < base) == (row.better == "lower") else "worse"
