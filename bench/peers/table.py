"""A comparison as Markdown. Pure: a document in, text out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.harness.table import number
from bench.peers.document import Document
from bench.peers.reasons import DRIVEN, LIMITS, reason

HIGHER_IS_BETTER = ("share of prompt tokens",)
PYTHON_FACTOR = 5.0
"""By how much ours should be ahead of a peer in Python."""

TITLES = {
    "peek": "Long hit",
    "look up": "Deep path",
    "evict": "Eviction",
    "a request of the trace": "The trace, a request",
    "hit rate": "The trace, hit rates",
    "scheduling pass": "Scheduling pass",
    "make tokens": "Conversions",
    "growth": "Memory",
}
"""Title of the table that a figure stands in, by the start of its name; in this order."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its heading.
        lines: Its text, line by line.
    """

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a contender stands to ours in one figure.

    Attributes:
        ratio: Its median over ours; `None` where ours is not above 0, or for a share.
        mark: "" or what is not as it should be: "behind", or "under 5 x".
    """

    ratio: float | None
    mark: str


@dataclass(slots=True)
class _Notes:
    numbers: dict[str, int] = field(default_factory=dict)

    def refer(self, text: str | None) -> str:
        """The number of a note in brackets; nothing for no text."""
        if text is None:
            return ""
        return f" [{self.numbers.setdefault(text, len(self.numbers) + 1)}]"

    def lines(self) -> list[str]:
        return [f"* [{place}] {text}." for text, place in self.numbers.items()]


def markdown(document: Document) -> str:
    """All sections as one page."""
    lines = [line for part in sections(document) for line in ("", f"## {part.title}", "", *part.lines)]
    return "\n".join(lines[1:]) + "\n"


def sections(document: Document) -> list[Section]:
    """Question, set-up, tables, where ours is behind, how each is driven, limits, rerun."""
    failed = tuple(
        f"* repetition {place + 1}, {label}, {row}: {text.strip().splitlines()[-1]}"
        for place, label, row, text in document.errors()
    )
    return [
        Section("Question", (_QUESTION,)),
        Section("Set-up", tuple(_set_up(document))),
        *_tables(document),
        Section("Where ours is behind, or not five times ahead of Python", tuple(_lost(document))),
        *([Section("Failed", failed)] if failed else []),
        Section("How each is driven", tuple(f"* {line}" for line in DRIVEN)),
        Section("What this does not show", tuple(f"* {line}" for line in LIMITS)),
        Section("Rerun", (f"`{_command(document)}`",)),
    ]


_QUESTION = (
    "Is the cache core ahead of those of other engines, on every row and by five times of those in Python, "
    "when each is driven as its own engine drives it?"
)


def standing(document: Document, contender: str, name: str, unit: str) -> Standing | None:
    """How a contender stands to ours; `None` where one of them has no such figure."""
    ours = document.centers(document.contenders[0], name)
    theirs = document.centers(contender, name)
    if not ours or not theirs:
        return None
    base, value = median(ours), median(theirs)
    if unit in HIGHER_IS_BETTER:
        return Standing(ratio=None, mark="behind" if value > base else "")
    ratio = value / base if base > 0 else None
    if value < base:
        return Standing(ratio=ratio, mark="behind")
    is_close = contender not in document.compiled and ratio is not None and ratio < PYTHON_FACTOR
    return Standing(ratio=ratio, mark=f"under {PYTHON_FACTOR:g} x" if is_close else "")


def heads(document: Document) -> list[str]:
    """Heads of the columns: each contender with the version of its distribution."""
    versions = document.versions | document.peers
    found = []
    for label in document.contenders:
        name, comma, rest = label.partition(",")
        version = versions.get(document.packages[label], "")
        found.append(f"{name} {version}".rstrip() + comma + rest)
    return found


def _tables(document: Document) -> list[Section]:
    by_title: dict[str, list[tuple[str, str]]] = {title: [] for title in TITLES.values()}
    for name, unit in document.figure_names():
        title = next((title for start, title in TITLES.items() if name.startswith(start)), "Others")
        by_title.setdefault(title, []).append((name, unit))
    return [Section(title, tuple(_table(document, names))) for title, names in by_title.items() if names]


def _table(document: Document, names: Sequence[tuple[str, str]]) -> list[str]:
    """One table; contenders without any figure in it are named below."""
    notes = _Notes()
    shown = [
        label
        for label in document.contenders
        if any(document.centers(label, name) or document.has_failed(label) for name, _ in names)
    ]
    head = dict(zip(document.contenders, heads(document), strict=True))
    rows = [["figure", *(head[label] for label in shown)], ["---", *("--:" for _ in shown)]]
    for name, unit in names:
        cells = (_cell(document, label, name, unit, notes) for label in shown)
        rows.append([f"{name} [{unit}]", *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows] + [""]
    lines += notes.lines()
    for label in document.contenders:
        why = document.why_none(label, names[0][0])
        if label not in shown and why is not None:
            lines.append(f"* {label}: {why}.")
    return lines if lines[-1] else lines[:-1]


def _cell(document: Document, contender: str, name: str, unit: str, notes: _Notes) -> str:
    centers = document.centers(contender, name)
    if not centers:
        return f"none{notes.refer(document.why_none(contender, name))}"
    text = " / ".join(number(value) for value in (min(centers), median(centers), max(centers)))
    found = standing(document, contender, name, unit)
    if found is not None and contender != document.contenders[0]:
        text += f" ({_times(found.ratio)})" if found.ratio is not None else ""
        text += f" **{found.mark}**{notes.refer(reason(contender, name))}" if found.mark else ""
    return text + notes.refer(document.remark(contender, name))


def _times(ratio: float) -> str:
    return f"{ratio:.1f} x" if ratio >= 1 else f"{ratio:.2g} x"


def _lost(document: Document) -> Iterable[str]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, unit in document.figure_names():
        for label in document.contenders[1:]:
            stands = standing(document, label, name, unit)
            if stands is not None and stands.mark:
                ratio = "" if stands.ratio is None else f" ({_times(stands.ratio)})"
                found.setdefault((stands.mark, label, reason(label, name)), []).append(f"{name}{ratio}")
    for (mark, label, why), names in found.items():
        yield f"* **{mark}**, {label}: {'; '.join(names)}. {why[0].upper()}{why[1:]}."
    if not found:
        yield "Nowhere."


def _set_up(document: Document) -> Iterable[str]:
    commits = dict.fromkeys(
        f"{each.commit}{', with uncommitted changes' if each.dirty else ''}" for each in document.repetitions
    )
    yield f"* commit {'; '.join(commits)}"
    yield f"* {document.cpu}, {document.cores} cores, {document.system}"
    for versions in (document.versions, document.peers):
        text = ", ".join(f"{name} {version}" for name, version in versions.items())
        yield f"* {document.python}; {text}" if versions is document.versions else f"* peers: {text}"
    options = document.options
    trace = options.trace or "generated, see `bench/workloads/generated_trace.py`"
    yield f"* size {options.size}, seed {document.seed}, page size {options.page_size}, trace: {trace}"
    yield f"* settings: {', '.join(f'{name} {value}' for name, value in document.config.items())}"
    yield (
        f"* repetitions: {len(document.repetitions)}; in each every contender runs once, in a fresh "
        "process, in an order that rotates"
    )
    yield (
        "* A cell is min / median / max over the repetitions' medians of CPU time (of the trace: over their "
        "means), and in brackets the ratio of the medians to ours."
    )


def _command(document: Document) -> str:
    options = document.options
    words = ["python -m bench peers --build", f"--repetitions {len(document.repetitions)}"]
    words += [f"--seed {document.seed}"] if document.seed else []
    words += [f"--size {options.size}"] if options.size != "full" else []
    words += [f"--trace {options.trace}"] if options.trace else []
    return " ".join(words)
