"""Everything that is made of result files, and where it belongs."""

from collections.abc import Iterator
from pathlib import Path

from bench.harness.drawing import draw
from bench.harness.environment import ROOT
from bench.harness.report import Picture
from bench.publishing.documents import load
from bench.publishing.page import page
from bench.publishing.readme import filled

RESULTS = ROOT / "bench" / "results"
README = ROOT / "README.md"


def everything() -> Iterator[tuple[Path, str]]:
    """All pages and pictures of the results folder, and README.

    Raises:
        UnreadableResults: A file there is no result file.
        PartsDiffer: README lacks a place for a part, or the results one for a place.
    """
    for file in sorted(RESULTS.glob("*.json")):
        yield from made_of(file)
    yield README, filled(README.read_text(encoding="utf-8"), {})


def made_of(file: Path) -> Iterator[tuple[Path, str]]:
    """The page of a result file and its pictures, with the paths they belong to.

    A file `[stem].remarks.md` beside it is taken into the page.

    Raises:
        UnreadableResults: It is no result file.
    """
    results = load(file)
    stem = file.stem

    def picture_name(picture: Picture) -> str:
        return f"{stem}.{picture.name}.svg"

    remarks = file.with_name(f"{stem}.remarks.md")
    text = remarks.read_text(encoding="utf-8") if remarks.exists() else ""
    yield file.with_suffix(".md"), page(results, picture_name, text)
    for run in results.runs:
        for picture in run.report.pictures:
            yield file.with_name(picture_name(picture)), draw(picture)
