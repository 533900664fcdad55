"""A study: what a command of the laboratory found, in words, tables and plots, for terminal and page alike.

It must not know any particular study.
"""

from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from runtime.report.figure import Figure
from runtime.report.tables import settings
from runtime.report.template import fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One large number.

    Attributes:
        name: What it is.
        value: The number, with its unit.
        remark: What to know about it; may be empty.
    """

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table of text.

    Attributes:
        title: What it shows.
        columns: Heads.
        rows: As many texts in each as there are columns.
        remark: What to know about it; may be empty.
        groups: What each row belongs to, where that stands above the rows instead of in a column; those of
            a group follow each other. Empty: nothing.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    remark: str = ""
    groups: list[str] = field(default_factory=list)

    def by_group(self) -> list[tuple[str, list[list[str]]]]:
        """Each group and its rows; all of them under "" where there are no groups."""
        names = self.groups or [""] * len(self.rows)
        pairs = groupby(zip(names, self.rows, strict=True), key=itemgetter(0))
        return [(name, [row for _, row in rows]) for name, rows in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All that is shown.

    Attributes:
        command: The command that made it.
        title: What was studied.
        lead: One or two sentences on what it means.
        facts: The large numbers.
        figures: Plots.
        sheets: Tables.
        warnings: What makes the numbers doubtful.
        notes: What a reader should know.
        config: Full configuration, as JSON values.
    """

    command: str
    title: str
    lead: str
    facts: list[Fact]
    figures: list[Figure]
    sheets: list[Sheet]
    warnings: list[str]
    notes: list[str]
    config: dict[str, Any] = field(default_factory=dict)


def render_study(study: Study) -> str:
    """The study as one HTML page that asks nothing of the network. Equal studies give equal pages."""
    return fill("study.html.j2", study.figures, study=study, settings=settings(study.config))
