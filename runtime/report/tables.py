"""The tables of the page that are not the comparison: settings, kinds, misses, errors, counters.

Each function gives rows of plain text; the template escapes them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from runtime.metrics import RunSummary, Spread, summarise_kinds
from runtime.report import formatting
from runtime.report.plots_tokens import parts
from runtime.result import RunResult

_MAX_ERRORS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """What one kind of turn got out of the cache.

    Attributes:
        kind: Kind of turn.
        requests: How many arrived.
        prompt: Their mean prompt length.
        hit_rates: Hit rate in each run.
        ttfts: Median TTFT in each run.
    """

    kind: str
    requests: str
    prompt: str
    hit_rates: list[str]
    ttfts: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """Requests of one run that did not finish, for one reason.

    Attributes:
        label: Label of the run.
        status: What became of them.
        error: The error of the first; "" if it had none.
        requests: How many.
    """

    label: str
    status: str
    error: str
    requests: str


def settings(config: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as (dotted name, value), sorted by name.

    Lists of plain values are joined by commas; lists of anything else are JSON. A value that is
    no dictionary has the name `prefix`.
    """
    if isinstance(config, dict) and config:
        return [
            row
            for name in sorted(config)
            for row in settings(config[name], f"{prefix}.{name}" if prefix else name)
        ]
    if config == {}:
        return [(prefix, formatting.MISSING)] if prefix else []
    return [(prefix, _value(config))]


def kind_rows(runs: Sequence[RunResult]) -> list[KindRow]:
    """One row for each kind of turn; none if there is but one kind."""
    by_run = [summarise_kinds(run) for run in runs]
    kinds = list(dict.fromkeys(kind for kinds in by_run for kind in kinds))
    if len(kinds) < 2:
        return []
    return [_kind_row(kind, [kinds.get(kind) for kinds in by_run]) for kind in kinds]


def miss_rows(summaries: Sequence[RunSummary]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What became of prompt tokens: name, then (tokens, share) in each run; most tokens first."""
    by_run = [parts(summary) for summary in summaries]
    totals: Counter[str] = Counter()
    for tokens in by_run:
        totals.update(tokens)
    names = sorted(totals, key=lambda name: (-totals[name], name))
    return [
        (
            name.replace("_", " "),
            [
                _tokens_and_share(tokens.get(name, 0), summary.prompt_tokens)
                for tokens, summary in zip(by_run, summaries, strict=True)
            ],
        )
        for name in names
    ]


def error_rows(runs: Sequence[RunResult]) -> list[ErrorRow]:
    """Requests that did not finish, by run, status and error; the most frequent of each run.

    Requests beyond those are summed up in one row for each run.
    """
    rows = []
    for run in runs:
        seen = Counter(
            (record.status, record.error or "") for record in run.requests if record.status != "finished"
        )
        ordered = sorted(seen.items(), key=lambda item: (-item[1], item[0]))
        rows += [
            ErrorRow(label=run.label, status=status, error=error, requests=formatting.count(count))
            for (status, error), count in ordered[:_MAX_ERRORS]
        ]
        if rest := ordered[_MAX_ERRORS:]:
            total = formatting.count(sum(count for _, count in rest))
            others = f"{len(rest)} further errors, see result.json"
            rows.append(ErrorRow(label=run.label, status="other", error=others, requests=total))
    return rows


def counter_rows(runs: Sequence[RunResult]) -> list[tuple[str, list[str]]]:
    """Each counter of the runs by name, with its value in each run."""
    names = sorted({name for run in runs for name in run.counters})
    return [(name, [_optional(run.counters.get(name)) for run in runs]) for name in names]


def _kind_row(kind: str, summaries: Sequence[RunSummary | None]) -> KindRow:
    known = [summary for summary in summaries if summary is not None]
    prompts = [summary for summary in known if summary.admitted]
    mean = prompts[0].prompt_tokens / prompts[0].admitted if prompts else None
    return KindRow(
        kind=kind,
        requests=_optional(max(summary.submitted for summary in known)),
        prompt=_optional(None if mean is None else round(mean)),
        hit_rates=[
            formatting.MISSING
            if summary is None or summary.hit_rate is None
            else formatting.share(summary.hit_rate)
            for summary in summaries
        ],
        ttfts=[_median(summary.ttft_s if summary else None) for summary in summaries],
    )


def _median(values: Spread | None) -> str:
    return formatting.MISSING if values is None else formatting.duration(values.p50)


def _optional(value: int | None) -> str:
    return formatting.MISSING if value is None else formatting.count(value)


def _tokens_and_share(tokens: int, whole: int) -> tuple[str, str]:
    share = formatting.share(tokens / whole) if whole else formatting.MISSING
    return formatting.count(tokens), share


def _value(value: Any) -> str:
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ", ".join(map(_value, value)) or formatting.MISSING
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    return msgspec.json.encode(value, order="deterministic").decode()
