"""Reports as tables for a terminal. Prints nothing itself."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.harness.report import STATISTICS, Figure, Report


def render(report: Report) -> RenderableType:
    """One table, then its notes. Text is shown literally."""
    if report.error is not None:
        return Text(f"{report.name}: failed\n{report.error}", style="red")
    if report.skipped is not None:
        return Text(f"{report.name}: skipped, {report.skipped}\n", style="yellow")
    table = Table(title=Text(f"{report.name}: {report.question}", style="bold"), title_justify="left")
    table.add_column("figure")
    table.add_column("clock")
    for name in STATISTICS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound, median")
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("limit")
    for figure in report.figures:
        for number, clock in enumerate(figure.samples):
            name = f"{figure.name} [{figure.unit}]" if not number else ""
            table.add_row(Text(name), *_cells(figure, clock))
        table.add_section()
    settings = ", ".join(f"{name} {value}" for name, value in report.config.items())
    notes = [Text(f"- {note}") for note in (*report.notes, f"settings: {settings}")]
    return Group(table, *notes, Text(""))


def _cells(figure: Figure, clock: str) -> list[Text]:
    numbers = [number(figure.statistic(name, clock)) for name in STATISTICS]
    bound = ratio = ""
    if figure.bound is not None:
        bound = f"{figure.bound.name}: {number(figure.bound.median(clock))}"
        share = figure.ratio(clock)
        ratio = "" if share is None else f"{share:.2f}"
    return [Text(clock), *map(Text, numbers), Text(bound), Text(ratio), _limits(figure, clock)]


def _limits(figure: Figure, clock: str) -> Text:
    text = Text()
    for position, limit in enumerate(figure.limits):
        holds = figure.holds(limit, clock)
        text.append("\n" if position else "")
        text.append(f"{limit.text()}: ")
        text.append("holds" if holds else "MISSED", style="green" if holds else "red")
    return text


def number(value: float) -> str:
    """Four significant digits, five below one, thousands apart."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1 else f"{value:.5g}"
