"""Contenders side by side."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from bench.harness.report import Report
from bench.harness.table import number


def render(reports: Sequence[Report]) -> Table:
    """Median and maximum of each figure by CPU time, and each contender's ratio to the first."""
    table = Table(title=Text("contenders side by side, CPU us (median / max) and ratio to ours"))
    for column in columns(reports):
        table.add_column(Text(column), justify="right" if column != "figure" else "left")
    for row in rows(reports):
        table.add_row(*map(Text, row))
    return table


def columns(reports: Sequence[Report]) -> list[str]:
    """Heads of the columns."""
    return ["figure", *(report.name for report in reports)]


def rows(reports: Sequence[Report]) -> list[list[str]]:
    """Cells of the table; what a contender lacks stays empty."""
    ours, found = reports[0], []
    for figure in ours.figures:
        cells = [f"{figure.name} [{figure.unit}]"]
        clock = next(iter(figure.samples))
        base = figure.statistic("median", clock)
        for report in reports:
            theirs = next((other for other in report.figures if other.name == figure.name), None)
            if theirs is None:
                cells.append("")
                continue
            median, largest = theirs.statistic("median", clock), theirs.statistic("max", clock)
            text = (
                number(median) if len(theirs.samples[clock]) == 1 else f"{number(median)} / {number(largest)}"
            )
            cells.append(f"{text} ({median / base:.1f} x)" if base and report is not ours else text)
        found.append(cells)
    return found


def markdown(reports: Sequence[Report]) -> str:
    """The same as Markdown."""
    heads = columns(reports)
    lines = [heads, ["---", *("--:" for _ in heads[1:])], *rows(reports)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
