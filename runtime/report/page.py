"""The page: gathers headline, plots and tables, and fills the template.

Owns what stands where. The template escapes everything that came from outside (names, notes,
errors, settings); the plots escape theirs, because Plotly reads tags in texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runtime.metrics import RunSummary, summarise
from runtime.report.figure import MAX_POINTS, Figure
from runtime.report.plots_latency import ttft_figures
from runtime.report.plots_time import hit_rate_figures, page_figures, queue_figures
from runtime.report.plots_tokens import token_figures
from runtime.report.plots_tree import tree_figures
from runtime.report.rows import GROUPS, TIMED, Cell, baseline_first, cells, heading
from runtime.report.tables import counter_rows, error_rows, kind_rows, miss_rows, settings
from runtime.report.template import fill
from runtime.result import RunResult, SimulationResult, Times

_HEADLINES: Final = {
    "hit rate": "Hit rate",
    "hit / ceiling": "Hit / ceiling",
    "hit / optimum": "Hit / optimum",
    "prefill tokens computed": "Prefill tokens computed",
    "TTFT p50": "Time to first token, p50",
    "TTFT p99": "Time to first token, p99",
    "E2E p50": "End to end, p50",
    "output tokens / s": "Output tokens / s",
}

_BASES: Final[dict[Times, str]] = {"simulated": "cost_model", "measured": "machine"}
"""The part of the configuration that times rest on."""

_OPTIONAL: Final = ("hit / ceiling", "hit / optimum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One large number of the page: the last run against the first.

    Attributes:
        name: What it is.
        timed: Whether it rests on simulated or measured time.
        value: Of the last run.
        before: The same of the first run; None if there is but one, or it has none.
    """

    name: str
    timed: bool
    value: Cell
    before: Cell | None


def render(result: SimulationResult) -> str:
    """The report as one HTML page: scripts, styles and data inside, no request to any server.

    Curves are thinned to a few hundred points, whatever the size of the run, and the page says
    so. Equal results give equal pages, for one version of Plotly.

    Returns:
        The page, some 5 MB, nearly all of it Plotly.js.

    Complexity:
        O(n log n) for n requests and samples.
    """
    runs = baseline_first(result.runs)
    summaries = [summarise(run) for run in runs]
    basis = _BASES[result.times]
    return fill(
        "report.html.j2",
        _figures(runs, summaries, result.times),
        title=_title(result),
        result=result,
        summaries=summaries,
        headlines=_headlines(summaries),
        groups=[
            (heading(group, result.times), [(row.name, cells(row, summaries)) for row in rows])
            for group, rows in GROUPS.items()
        ],
        kinds=kind_rows(runs),
        misses=miss_rows(summaries),
        errors=error_rows(runs),
        counters=counter_rows(runs),
        basis=settings(result.config.get(basis, {})),
        config=settings({k: v for k, v in result.config.items() if k != basis}),
        versions=sorted(result.versions.items()),
        max_points=MAX_POINTS,
    )


def _figures(runs: Sequence[RunResult], summaries: Sequence[RunSummary], times: Times) -> list[Figure]:
    return [
        *ttft_figures(runs, times),
        *token_figures(summaries),
        *hit_rate_figures(runs, times),
        *queue_figures(runs, times),
        *page_figures(runs, times),
        *tree_figures(runs),
    ]


def _title(result: SimulationResult) -> str:
    workload = result.config.get("workload")
    if isinstance(workload, dict):
        workload = workload.get("name")
    return workload if isinstance(workload, str) and workload else "a workload"


def _headlines(summaries: Sequence[RunSummary]) -> list[Headline]:
    if not summaries:
        return []
    found = []
    for group, rows in GROUPS.items():
        for row in rows:
            if row.name in _HEADLINES:
                before, value = cells(row, [summaries[0], summaries[-1]])
                if row.value(summaries[-1]) is None and row.name in _OPTIONAL:
                    continue
                shown = len(summaries) > 1 and row.value(summaries[0]) is not None
                found.append(
                    Headline(
                        name=_HEADLINES[row.name],
                        timed=group in TIMED,
                        value=value,
                        before=before if shown else None,
                    )
                )
    return found
