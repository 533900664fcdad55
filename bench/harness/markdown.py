"""Reports as Markdown."""

from collections.abc import Iterable, Sequence

from bench.harness.report import Bound, Figure, Report
from bench.harness.table import number

HEADER = ("figure", "clock", "min", "median", "mean", "p99", "max", "bound (median)", "ratio", "limit")


def section(report: Report, above: Sequence[str] = ()) -> list[str]:
    """Lines of a report: its question, what stands `above` the table, the table, its notes."""
    lines = [f"## {report.name}: {report.question}", "", *above]
    if report.error is not None:
        return [*lines, f"Failed: {report.error.splitlines()[-1]}", ""]
    if report.skipped is not None:
        return [*lines, f"Skipped: {report.skipped}", ""]
    lines += [row(HEADER), row("---" if name in {"figure", "clock"} else "--:" for name in HEADER)]
    for figure in report.figures:
        lines += [row(_cells(figure, clock, first=not place)) for place, clock in enumerate(figure.samples)]
    settings = ", ".join(f"{name} {value}" for name, value in report.config.items())
    return [*lines, "", *(f"* {note}" for note in report.notes), f"* settings: {settings}", ""]


def row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def _cells(figure: Figure, clock: str, *, first: bool) -> list[str]:
    name = f"{figure.name} [{figure.unit}]" if first else ""
    numbers = [number(figure.statistic(statistic, clock)) for statistic in HEADER[2:7]]
    ratio = figure.ratio(clock)
    limits = "; ".join(
        f"{limit.text()}: {'holds' if figure.holds(limit, clock) else '**missed**'}"
        for limit in figure.limits
    )
    return [
        name,
        clock,
        *numbers,
        _bound(figure.bound, clock),
        "" if ratio is None else f"{ratio:.2f}",
        limits,
    ]


def _bound(bound: Bound | None, clock: str) -> str:
    return "" if bound is None else f"{bound.name}: {number(bound.median(clock))}"
