"""What a simulation or a measurement found, as tables for a terminal.

Owns how results look in text. Gives renderables to whoever owns the console; prints nothing.
"""

import textwrap
from collections.abc import Sequence
from typing import Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from runtime.metrics import RunSummary, summarise
from runtime.report.rows import GROUPS, Cell, baseline_first, cells, heading
from runtime.report.study import Sheet, Study
from runtime.report.subject import subject
from runtime.report.tables import miss_rows
from runtime.result import SimulationResult, Times

_VERDICT_STYLES: Final = {"better": "green", "worse": "red", None: ""}


def comparison_table(summaries: Sequence[RunSummary], times: Times = "simulated") -> Table:
    """All metrics, runs side by side: the baseline first, each other run with its ratio to it.

    Text of the caller is shown literally; nothing in it is read as markup.
    """
    runs = baseline_first(summaries)
    table = Table(title=f"{times.capitalize()} serving (all times are {times})", title_style="bold")
    table.add_column("metric")
    for number, run in enumerate(runs):
        table.add_column(Text(f"{run.label}\n({times})", justify="right"), justify="right")
        if number:
            table.add_column(Text("ratio", justify="right"), justify="right")
    for group, rows in GROUPS.items():
        table.add_section()
        table.add_row(Text(heading(group, times), style="bold"))
        for row in rows:
            table.add_row(Text(f"  {row.name}"), *_texts(cells(row, runs)))
    return table


def miss_table(summaries: Sequence[RunSummary]) -> Table:
    """What became of the prompt tokens at first admissions: tokens and share, by run."""
    runs = baseline_first(summaries)
    table = Table(title="Prompt tokens at first admissions", title_style="bold")
    table.add_column("matched, or why not")
    for run in runs:
        table.add_column(Text(run.label, justify="right"), justify="right")
        table.add_column("share", justify="right")
    for name, values in miss_rows(runs):
        table.add_row(Text(name), *(Text(text) for pair in values for text in pair))
    return table


def messages(result: SimulationResult | Study) -> Group:
    """Warnings, then notes, one paragraph each."""
    warnings = [Text.assemble(("warning: ", "bold yellow"), text) for text in result.warnings]
    notes = [Text.assemble(("note: ", "bold"), text) for text in result.notes]
    return Group(*warnings, *notes)


def sheet_table(sheet: Sheet) -> Table:
    """A sheet: its first column names the rows, the others hold numbers."""
    table = Table(title=Text(sheet.title), title_style="bold", caption=Text(sheet.remark) or None)
    for number, column in enumerate(sheet.columns):
        justify: Literal["left", "right"] = "right" if number else "left"
        head = Text(_folded(column, [row[number] for row in sheet.rows]), justify=justify)
        table.add_column(head, justify=justify, overflow="fold")
    for group, rows in sheet.by_group():
        if group:
            table.add_section()
            table.add_row(Text(group, style="bold"))
        for name, *texts in rows:
            table.add_row(Text(f"  {name}" if group else name), *map(Text, texts))
    return table


def _folded(head: str, cells: Sequence[str]) -> str:
    """A head in as many lines as make it no wider than what stands below it, if its words are not."""
    widths = [len(line) for cell in cells for line in cell.splitlines()]
    # textwrap does not break at no-break spaces: a unit stays whole.
    text = head.replace("/ s", "/\N{NO-BREAK SPACE}s")
    return textwrap.fill(text, max([*widths, 1]), break_long_words=False)


def render_study(study: Study) -> RenderableType:
    """Everything that can be shown in text: title, large numbers, tables, then warnings and notes."""
    facts = Table.grid(padding=(0, 2))
    for fact in study.facts:
        facts.add_row(Text(fact.name), Text(fact.value, style="bold"), Text(fact.remark, style="dim"))
    title = Text(study.title, style="bold")
    return Group(title, Text(study.lead), Text(), facts, *map(sheet_table, study.sheets), messages(study))


def render(result: SimulationResult) -> RenderableType:
    """Everything: what was served on what, both tables, then warnings and notes.

    Complexity:
        O(n log n) for n requests.
    """
    summaries = [summarise(run) for run in result.runs]
    title = Text(subject(result.config), style="bold")
    return Group(title, comparison_table(summaries, result.times), miss_table(summaries), messages(result))


def _texts(row: Sequence[Cell]) -> list[Text]:
    texts = []
    for number, cell in enumerate(row):
        texts.append(Text(cell.text))
        if number:
            texts.append(Text(cell.ratio, style=_VERDICT_STYLES[cell.verdict]))
    return texts
