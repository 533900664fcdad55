"""README's tables and its picture, out of the results: text only, no numbers of its own."""

from collections.abc import Mapping
from statistics import median

from bench.errors import BenchError
from bench.harness.markdown import row
from bench.harness.report import Figure, Report
from bench.peers.document import Document
from bench.peers.table import standing
from bench.publishing.chat_table import chat_table
from bench.publishing.documents import Results
from runtime.report.formatting import duration

PICTURED = "serve_simulated_ttft"
PEERS = ("SGLang, Rust core", "SGLang, Python core", "vLLM, xxhash")
PEER_ROWS = {
    "peek, 131,072 tokens": "find a cached prompt of 128 k tokens",
    "look up, lock, page table, unlock, 512 nodes": "open, page table, close on a path of 512 nodes",
    "evict a page and insert a leaf, all just touched, 100,000 leaves": (
        "evict one page, insert one leaf, 100,000 leaves, all just touched"
    ),
    "a request of the trace, 10,000,000 tokens of capacity": (
        "a request of a real trace (mean 12 k tokens), 10 M tokens cached"
    ),
    "scheduling pass, longest prefix first, 10,000 waiting": (
        "who is next, longest prefix first, 10,000 waiting"
    ),
}


class FigureMissing(BenchError, LookupError):
    """A result file lacks a figure that README shows."""


def parts(serve: Results, peers: Document, serve_stem: str, peers_stem: str) -> dict[str, str]:
    """Every part of README that comes from results, by its name there.

    Args:
        serve: Results of the suite "serve".
        peers: The comparison with other engines' caches.
        serve_stem: Name of the file of the first, without suffix.
        peers_stem: Name of the file of the second.

    Raises:
        FigureMissing: One of them lacks what README shows.
    """
    reports = {run.report.name: run.report for run in serve.runs}
    return {
        "chat": chat_table(_report(reports, "simulate_chat")),
        "load": _load(_report(reports, "serve_simulated"), serve_stem),
        "engine": _engine(_report(reports, "engine_conversation"), serve_stem),
        "peers": _peers(peers, peers_stem),
    }


def _report(reports: Mapping[str, Report], name: str) -> Report:
    if name not in reports or not reports[name].figures:
        raise FigureMissing(f"the results of the suite serve have no figures of {name}")
    return reports[name]


def _figure(report: Report, name: str) -> Figure:
    for figure in report.figures:
        if figure.name == name:
            return figure
    raise FigureMissing(f"{report.name} has no figure {name!r}")


def _load(report: Report, stem: str) -> str:
    capacity = _figure(report, "simulated capacity, cache, lpm / no cache")
    limits = next(note for note in report.notes if note.startswith("Goodput counts"))
    picture = next((each for each in report.pictures if each.name == PICTURED), None)
    if picture is None:
        raise FigureMissing(f"{report.name} has no picture {PICTURED!r}")
    kept = limits.partition("requests with ")[2].partition(" (")[0]
    least, most = (capacity.statistic(name, "value") for name in ("min", "max"))
    return (
        f"![{picture.title}](bench/results/{stem}.{picture.name}.svg)\n\n"
        f"Within {kept}, the same simulated GPU serves {_value(capacity):.1f} times the conversations with "
        f"the cache ({least:.1f} to {most:.1f} over {len(capacity.samples['value'])} seeds; "
        f"[every rate](bench/results/{stem}.md))."
    )


def _engine(report: Report, stem: str) -> str:
    (figure,) = report.figures
    prompts = report.config["prompt tokens"]
    assert isinstance(prompts, list)
    with_cache, without = figure.statistic("median", "wall") / 1e6, _bound(figure) / 1e6
    return (
        f"Over a conversation of {len(prompts)} turns that ends at {prompts[-1]:,} tokens, on two CPU cores, "
        f"the first token comes after {duration(with_cache)} instead of {duration(without)} (p50, measured), "
        f"{without / with_cache:.1f} times sooner ([how](bench/results/{stem}.md))."
    )


def _peers(document: Document, stem: str) -> str:
    names = dict(document.figure_names())
    versions = document.versions | document.peers
    heads = [f"{label.replace(',', f' {versions[document.packages[label]]},', 1)}" for label in PEERS]
    lines = [row(["us", "radixcache", *heads]), row(["---", *("--:" for _ in (0, *PEERS))])]
    for name, text in PEER_ROWS.items():
        if name not in names:
            raise FigureMissing(f"the comparison has no figure {name!r}")
        ours = median(document.centers(document.contenders[0], name))
        lines.append(
            row([text, _number(ours), *(_peer(document, label, name, names[name]) for label in PEERS)])
        )
    about = (
        f"Medians of {len(document.repetitions)} repetitions in turn, CPU time on a shared host, pages of 16 "
        f"tokens: compare the ratios. Where others are ahead, and why: [all rows](bench/results/{stem}.md)."
    )
    return "\n".join([*lines, "", about])


def _peer(document: Document, label: str, name: str, unit: str) -> str:
    stands = standing(document, label, name, unit)
    if stands is None or stands.ratio is None:
        return "none"
    return f"{_number(median(document.centers(label, name)))} ({stands.ratio:.1f} x)"


def _value(figure: Figure) -> float:
    return figure.statistic("median", next(iter(figure.samples)))


def _bound(figure: Figure) -> float:
    assert figure.bound is not None
    return figure.bound.median(next(iter(figure.bound.samples)))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
