"""Reports as a Markdown page, for bench/results."""

from collections.abc import Iterable, Sequence

from bench.harness.environment import Environment
from bench.harness.report import Bound, Figure, Report
from bench.harness.table import number

HEADER = ("figure", "clock", "min", "median", "mean", "p99", "max", "bound (median)", "ratio", "limit")


def page(environment: Environment, options: str, reports: Sequence[Report]) -> str:
    """Where the run was taken, then one section a report."""
    packages = environment["versions"]
    assert isinstance(packages, dict)
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    lines = [
        f"* commit {environment['commit']}{', with uncommitted changes' if environment['dirty'] else ''}",
        f"* {environment['cpu']}, {environment['cores']} cores, {environment['system']}",
        f"* {environment['python']}; {versions}",
        f"* {options}",
    ]
    return "\n".join([*lines, "", *(line for report in reports for line in _section(report))])


def _section(report: Report) -> list[str]:
    lines = [f"## {report.name}: {report.question}", ""]
    if report.error is not None:
        return [*lines, f"Failed: {report.error.splitlines()[-1]}", ""]
    if report.skipped is not None:
        return [*lines, f"Skipped: {report.skipped}", ""]
    lines += [_row(HEADER), _row("---" if name in {"figure", "clock"} else "--:" for name in HEADER)]
    for figure in report.figures:
        lines += [_row(_cells(figure, clock, first=not place)) for place, clock in enumerate(figure.samples)]
    settings = ", ".join(f"{name} {value}" for name, value in report.config.items())
    return [*lines, "", *(f"* {note}" for note in report.notes), f"* settings: {settings}", ""]


def _row(cells: Iterable[str]) -> str:
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
    if bound is None:
        return ""
    return (
        f"{bound.name}: {number(Figure(name='', unit='', samples=bound.samples).statistic('median', clock))}"
    )
