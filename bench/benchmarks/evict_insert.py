"""Evicting one page and inserting one leaf, with ever more leaves."""

from bench.harness.promises import flat, logarithmic, median_point
from bench.harness.report import Bound, Figure, Limit, Picture, Points, Report
from bench.harness.timing import CPU, Collector, Samples, Stopwatch, empty_section, frozen_heap
from bench.options import Options
from bench.scenarios.leaf_churn import LeafChurn

EVICTION_LIMITS = (Limit(statistic="mean", plus=6.0), Limit(statistic="max", plus=100.0))
FLAT = Limit(statistic="median", factor=2.0, source="ours, for 'flat'")
ROUNDS = 5
WARM_UP = 20
IN_A_ROW = 100
STATES = {"steady": None, "all just touched, in order": False, "all just touched, in random order": True}
"""Whether every leaf is used again before a round, and whether in random order."""


def run(options: Options) -> Report:
    """See the module."""
    counts = (20, 50) if options.size == "tiny" else (1_000, 10_000, 100_000)
    times = options.pick(tiny=5, full=600)
    scenarios = {count: LeafChurn(count, options.page_size, options.seed) for count in counts}
    figures: list[Figure] = [Figure(name="an empty timed section", unit="us", samples=empty_section(times))]
    notes, lines = [], dict[str, Points]()
    for state, shuffled in STATES.items():
        by_count = _churn(scenarios, times, shuffled)
        for place, what in enumerate(("evict", "insert")):
            line = f"{what}, {state}"
            samples = {count: watches[place].samples() for count, watches in by_count.items()}
            lines[line] = [median_point(count, taken) for count, taken in samples.items()]
            made = [_figure(line, count, samples, is_eviction=not place) for count in counts]
            figures += made
            if what == "evict":
                for figure, (evictions, _) in zip(made, by_count.values(), strict=True):
                    notes += _collections(figure, evictions)
    figures += _in_a_row(scenarios, times)
    return Report(
        name="evict_insert",
        question="does evicting a page or adding a leaf cost more where there are many?",
        config={"leaves": list(counts), "rounds": ROUNDS, "calls_per_round": times, "policy": "lru"},
        figures=tuple(figures),
        pictures=(_picture(lines),),
        notes=(
            (
                "Every call is timed on its own; an empty section's time is contained in each, and each "
                "eviction comes right after an insertion. gc.collect() and gc.freeze() came first, as "
                "servers do; the collector stays on."
            ),
            (
                f"'In a row': {IN_A_ROW} single calls in one section, so without the clock and with the "
                "processor's caches warm."
            ),
            (
                "'all just touched': before each round every leaf is used again; the first timed eviction "
                "comes right after. An insertion is open, reserve, advance and close."
            ),
            (
                "The largest wall times contain preemption by the system and interrupts; CPU time contains "
                "interrupts and passes of the garbage collector."
            ),
            *notes,
        ),
    )


def _figure(line: str, count: int, samples: dict[int, Samples], *, is_eviction: bool) -> Figure:
    smallest, limits = next(iter(samples)), EVICTION_LIMITS if is_eviction else ()
    is_first = count == smallest
    return Figure(
        name=f"{line}, {count:,} leaves",
        unit="us",
        samples=samples[count],
        bound=None if is_first else Bound(name=f"{smallest:,} leaves", samples=samples[smallest]),
        limits=limits if is_first else (*limits, FLAT),
    )


def _churn(
    scenarios: dict[int, LeafChurn], times: int, shuffled: bool | None
) -> dict[int, tuple[Stopwatch, Stopwatch]]:
    """Evictions and insertions by number of leaves, in rounds that take turns."""
    with Collector() as collector:
        watches = {count: (Stopwatch(collector), Stopwatch(collector)) for count in scenarios}
        with frozen_heap():
            for scenario in scenarios.values():
                scenario.churn(
                    WARM_UP, Stopwatch(), Stopwatch()
                )  # the collector has just walked the whole heap
            for _ in range(ROUNDS):
                for count, scenario in scenarios.items():
                    if shuffled is not None:
                        scenario.touch_all(shuffled=shuffled)
                    scenario.churn(times, *watches[count])
    for scenario in scenarios.values():
        scenario.verify()
    return watches


def _in_a_row(scenarios: dict[int, LeafChurn], times: int) -> list[Figure]:
    calls = min(IN_A_ROW, *scenarios)
    watches = {count: Stopwatch() for count in scenarios}
    with frozen_heap():
        for scenario in scenarios.values():
            scenario.evict_in_a_row(calls, Stopwatch())
        for _ in range(max(5, ROUNDS * times // IN_A_ROW)):
            for count, scenario in scenarios.items():
                scenario.evict_in_a_row(calls, watches[count])
    for scenario in scenarios.values():
        scenario.verify()
    return [
        Figure(
            name=f"evict, steady, in a row, {count:,} leaves",
            unit="us",
            samples=watch.samples(calls),
            limits=EVICTION_LIMITS[:1],
        )
        for count, watch in watches.items()
    ]


def _collections(figure: Figure, watch: Stopwatch) -> list[str]:
    """A note on the calls in which the garbage collector ran, if there are any."""
    if not watch.collected:
        return []
    samples = figure.samples[CPU]
    others = max(taken for number, taken in enumerate(samples) if number not in watch.collected)
    note = (
        f"{figure.name}: the garbage collector ran in {len(watch.collected)} of {len(samples):,} calls; the "
        f"slowest of the others took {others:.1f} us of CPU time."
    )
    return [note]


def _picture(lines: dict[str, Points]) -> Picture:
    first = next(iter(lines.values()))
    return Picture(
        name="evict_insert",
        title="Evicting one page, inserting one leaf",
        x="evictable leaves",
        y="median CPU time [us]",
        lines=lines,
        promises={"promised: c x log(leaves) (evict, steady)": logarithmic(first), "flat": flat(first)},
    )
