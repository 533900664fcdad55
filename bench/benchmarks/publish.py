"""Publishing pages: ever more in one go, and into ever larger trees."""

from bench.harness.promises import flat, linear, median_point
from bench.harness.report import Bound, Figure, Limit, Picture, Points, Report
from bench.harness.timing import Samples, Stopwatch, empty_section, frozen_heap
from bench.options import Options
from bench.scenarios.published_pages import PublishedPages

FLAT = Limit(statistic="median", factor=2.0, source="ours, for 'flat'")
RESERVE, PUBLISH, COPY = "reserve", "advance + publish", "copy of the tokens and page ids"
NAMES = (RESERVE, PUBLISH, COPY)
TREE_PAGES = 16
IN_A_ROW, WARM_UP = 5, 1
"""Rounds that a size makes before it is another's turn, and rounds before them that are not timed."""


def run(options: Options) -> Report:
    """See the module."""
    tiny = options.size == "tiny"
    sizes = (1, 4) if tiny else (1, 4, 16, 64, 256, 1024, 4096)
    counts = (20, 50) if tiny else (1_000, 10_000, 100_000)
    rounds, tree_rounds = options.pick(tiny=5, full=50), options.pick(tiny=5, full=200)
    by_size = _in_turn({size: _scenario(options, size, 1, rounds) for size in sizes}, rounds)
    by_count = _in_turn(
        {count: _scenario(options, TREE_PAGES, count, tree_rounds) for count in counts}, tree_rounds
    )
    figures = [Figure(name="an empty timed section", unit="us", samples=empty_section(rounds))]
    figures += [
        Figure(
            name=f"{name}, {size:,} pages",
            unit="us",
            samples=samples[name],
            bound=Bound(name=COPY, samples=samples[COPY]),
        )
        for name in (RESERVE, PUBLISH)
        for size, samples in by_size.items()
    ]
    smallest = by_count[counts[0]]
    figures += [
        Figure(
            name=f"{name}, {TREE_PAGES} pages into a tree of {count:,} leaves",
            unit="us",
            samples=samples[name],
            bound=None if count == counts[0] else Bound(name=f"{counts[0]:,} leaves", samples=smallest[name]),
            limits=() if count == counts[0] else (FLAT,),
        )
        for name in (RESERVE, PUBLISH)
        for count, samples in by_count.items()
    ]
    return Report(
        name="publish",
        question="what does publishing pages cost, by their number and by the size of the tree?",
        config={
            "pages": list(sizes),
            "leaves": list(counts),
            "rounds": rounds,
            "rounds_in_trees": tree_rounds,
        },
        figures=tuple(figures),
        notes=(
            (
                "Every round publishes content that nobody has, behind a page that all share; nothing is "
                "evicted. Every call is timed on its own and contains an empty section's time. Sizes take "
                f"turns, {IN_A_ROW} rounds each after one that is not timed, so that each finds its own data "
                "near."
            ),
            "What the processor's caches do to long runs of pages shows in the copy as well.",
            "After the timing, all that was published is found, page for page.",
        ),
        pictures=(_size_picture(by_size), _tree_picture(by_count)),
    )


def _scenario(options: Options, num_pages: int, num_leaves: int, rounds: int) -> PublishedPages:
    num_rounds = rounds // IN_A_ROW * (WARM_UP + IN_A_ROW)
    return PublishedPages(num_pages, num_leaves, num_rounds, options.page_size, options.seed)


def _in_turn(scenarios: dict[int, PublishedPages], rounds: int) -> dict[int, dict[str, Samples]]:
    """Samples by size and name, some rounds of each size in turn."""
    watches = {size: {name: Stopwatch() for name in NAMES} for size in scenarios}
    with frozen_heap():
        for _ in range(rounds // IN_A_ROW):
            for size, scenario in scenarios.items():
                for number in range(WARM_UP + IN_A_ROW):
                    kept = watches[size] if number >= WARM_UP else {name: Stopwatch() for name in NAMES}
                    scenario.publish(*(kept[name] for name in NAMES))
    for scenario in scenarios.values():
        scenario.verify()
    return {size: {name: watch.samples() for name, watch in kept.items()} for size, kept in watches.items()}


def _lines(taken: dict[int, dict[str, Samples]], names: tuple[str, ...]) -> dict[str, Points]:
    return {name: [median_point(size, samples[name]) for size, samples in taken.items()] for name in names}


def _size_picture(by_size: dict[int, dict[str, Samples]]) -> Picture:
    lines = _lines(by_size, NAMES)
    return Picture(
        name="publish_pages",
        title="Publishing ever more pages in one go",
        x="pages",
        y="median CPU time [us]",
        lines=lines,
        promises={f"promised: a + c x pages ({name})": linear(lines[name]) for name in (RESERVE, PUBLISH)},
    )


def _tree_picture(by_count: dict[int, dict[str, Samples]]) -> Picture:
    lines = _lines(by_count, (RESERVE, PUBLISH))
    return Picture(
        name="publish_leaves",
        title=f"Publishing {TREE_PAGES} pages into ever larger trees",
        x="leaves of the tree",
        y="median CPU time [us]",
        lines=lines,
        promises={f"promised: flat ({name})": flat(points) for name, points in lines.items()},
    )
