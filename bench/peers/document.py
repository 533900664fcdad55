"""What a comparison found, as it is written and read back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from bench.errors import BenchError
from bench.harness.report import Figure, Setting
from bench.harness.timing import CPU
from bench.options import Options

FORMAT = "radixcache-bench-peers-2"


class NotTheSame(BenchError, ValueError):
    """Two runs that do not belong into one table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one process found of one contender.

    Attributes:
        contender: Its label.
        figures: With raw samples.
        lacks: Why there is no figure, by row or by start of a figure's name.
        remarks: What to know of a figure, by its name or the start of it.
        errors: What went wrong, by row; a row that went wrong has no figures.
        seconds: CPU time of the process, by row; imports are in the first.
    """

    contender: str
    figures: tuple[Figure, ...] = ()
    lacks: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Every contender once, each in a fresh process.

    Attributes:
        commit: Of this repository.
        dirty: Whether it had uncommitted changes.
        rows: What was measured.
        measured: In the order they ran.
    """

    commit: str | None
    dirty: bool | None
    rows: tuple[str, ...]
    measured: tuple[Measured, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All repetitions of a comparison.

    Attributes:
        format: `FORMAT`.
        cpu: What the processor calls itself.
        cores: How many.
        system: Of the machine.
        python: Of this program; the peers run under the same minor version.
        versions: Of what ours uses.
        peers: Of the peers' distributions, read where they are installed.
        contenders: Labels in the order of the table, ours first.
        packages: The distribution of each contender.
        compiled: Contenders whose cache is compiled code.
        seed: For all token material.
        options: As given to the run, the trace without its folder.
        config: Every setting that a rerun needs.
        repetitions: In the order they were taken.
    """

    format: str
    cpu: str
    cores: int
    system: str
    python: str
    versions: dict[str, str]
    peers: dict[str, str]
    contenders: tuple[str, ...]
    packages: dict[str, str]
    compiled: tuple[str, ...]
    seed: int
    options: Options
    config: dict[str, Setting]
    repetitions: tuple[Repetition, ...] = ()

    def extended(self, other: "Document") -> "Document":
        """This and the repetitions of another run under the same conditions; commits may differ.

        Raises:
            NotTheSame: The conditions differ.
        """
        for name in ("format", "cpu", "cores", "system", "python", "peers", "options", "config"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise NotTheSame(f"{name} differs: {mine} and {theirs}")
        return replace(self, repetitions=(*self.repetitions, *other.repetitions))

    def figure_names(self) -> list[tuple[str, str]]:
        """Name and unit of every figure, in the order they were first seen, those of ours first."""
        ordered = sorted(self._all(), key=lambda measured: self.contenders.index(measured.contender))
        return list(dict.fromkeys((figure.name, figure.unit) for each in ordered for figure in each.figures))

    def centers(self, contender: str, name: str) -> list[float]:
        """A figure's median in each repetition that has it: of CPU time, or of what is no time."""
        return [
            median(figure.samples[CPU if CPU in figure.samples else "value"])
            for measured in self._of(contender)
            for figure in measured.figures
            if figure.name == name
        ]

    def why_none(self, contender: str, name: str) -> str | None:
        """Why a contender has no such figure, if that is known."""
        return _said(name, (measured.lacks for measured in self._of(contender)))

    def remark(self, contender: str, name: str) -> str | None:
        """What to know of a contender's figure, if anything."""
        return _said(name, (measured.remarks for measured in self._of(contender)))

    def errors(self) -> list[tuple[int, str, str, str]]:
        """Repetition, contender, row and traceback of whatever went wrong."""
        return [
            (number, measured.contender, row, text)
            for number, repetition in enumerate(self.repetitions)
            for measured in repetition.measured
            for row, text in measured.errors.items()
        ]

    def has_failed(self, contender: str) -> bool:
        """Whether anything went wrong with a contender."""
        return any(measured.errors for measured in self._of(contender))

    def _all(self) -> list[Measured]:
        return [measured for repetition in self.repetitions for measured in repetition.measured]

    def _of(self, contender: str) -> list[Measured]:
        return [measured for measured in self._all() if measured.contender == contender]


def rotated(labels: Sequence[str], repetition: int) -> list[str]:
    """The order of a repetition: each begins with the one after that with which the last began."""
    start = repetition % len(labels) if labels else 0
    return [*labels[start:], *labels[:start]]


def decode(line: bytes) -> Document:
    """Read a document back.

    Raises:
        msgspec.MsgspecError: It is none.
        NotTheSame: It has another format.
    """
    document = msgspec.json.decode(line, type=Document)
    if document.format != FORMAT:
        raise NotTheSame(f"format {document.format}, not {FORMAT}")
    return document


def _said(name: str, texts: Iterable[dict[str, str]]) -> str | None:
    """The text under the longest start of a name."""
    found = {start: text for each in texts for start, text in each.items() if name.startswith(start)}
    return found[max(found, key=len)] if found else None
