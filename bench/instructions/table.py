"""Comparisons as tables for a terminal. Prints nothing itself."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.instructions.verdicts import Change, Grown


def render(changes: Sequence[Change], grown: Sequence[Grown]) -> RenderableType:
    """A table of operations and one of promises about complexity."""
    counts = _table("instructions a call", "baseline", "now", "change")
    for change in changes:
        share = "" if change.share is None else f"{change.share:+.2%}"
        cells = (change.operation, _count(change.before), _count(change.now), share)
        counts.add_row(*map(Text, cells), _colored(change.verdict, good=change.verdict == "holds"))
    growths = _table("growth", "factor", "at most")
    for each in grown:
        sizes = f"{each.growth.small} -> {each.growth.large}"
        numbers = (f"{each.factor:.3f}", f"{each.growth.factor}")
        verdict = _colored("holds" if each.holds else "MISSED", good=each.holds)
        growths.add_row(Text(sizes), *map(Text, numbers), verdict)
    return Group(counts, growths)


def _table(first: str, *numbers: str) -> Table:
    table = Table()
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    return table


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _colored(verdict: str, *, good: bool) -> Text:
    return Text(verdict, style="green" if good else "red")
