"""Everything that is made of result files, and where it belongs."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.errors import BenchError
from bench.harness.drawing import draw
from bench.harness.environment import ROOT
from bench.harness.report import Picture
from bench.peers import document as comparison
from bench.peers.table import markdown
from bench.publishing.documents import UnreadableResults, load
from bench.publishing.headline import parts
from bench.publishing.page import page
from bench.publishing.readme import filled

RESULTS = ROOT / "bench" / "results"
README = ROOT / "README.md"


def everything() -> Iterator[tuple[Path, str]]:
    """All pages and pictures of the results folder, and README.

    Raises:
        UnreadableResults: A file there is no result file.
        FigureMissing: A file lacks what README shows.
        PartsDiffer: README lacks a place for a part, or the results one for a place.
    """
    for file in sorted(RESULTS.glob("*.json")):
        yield from made_of(file)
    serve, peers = newest("serve"), newest("peers")
    made = parts(load(serve), _comparison(peers), serve.stem, peers.stem)
    yield README, filled(README.read_text(encoding="utf-8"), made)


def made_of(file: Path) -> Iterator[tuple[Path, str]]:
    """The page of a result file and its pictures, with the paths they belong to.

    A file `[stem].remarks.md` beside it is taken into the page.

    Raises:
        UnreadableResults: It is no result file.
    """
    if file.name.startswith("peers_"):
        yield file.with_suffix(".md"), markdown(_comparison(file))
        return
    results, stem = load(file), file.stem

    def picture_name(picture: Picture) -> str:
        return f"{stem}.{picture.name}.svg"

    remarks = file.with_name(f"{stem}.remarks.md")
    text = remarks.read_text(encoding="utf-8") if remarks.exists() else ""
    yield file.with_suffix(".md"), page(results, picture_name, text)
    for run in results.runs:
        for picture in run.report.pictures:
            yield file.with_name(picture_name(picture)), draw(picture)


def newest(theme: str) -> Path:
    """The result file of a theme that was made last.

    Raises:
        UnreadableResults: There is none.
    """
    files = sorted(
        RESULTS.glob(f"{theme}_*.json"), key=lambda file: (file.stem.rpartition("_")[2], file.name)
    )
    if not files:
        raise UnreadableResults(f"bench/results has no file of {theme}")
    return files[-1]


def _comparison(file: Path) -> comparison.Document:
    try:
        return comparison.decode(file.read_bytes())
    except (msgspec.DecodeError, BenchError) as error:
        raise UnreadableResults(f"{file.name}: {error}") from error
