"""Evicting one page and inserting one leaf, with ever more leaves."""

from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import CPU, Collector, Stopwatch, empty_section, frozen_heap
from bench.options import Options
from bench.scenarios.leaf_churn import LeafChurn

EVICTION_LIMITS = (Limit(statistic="mean", plus=6.0), Limit(statistic="max", plus=100.0))
FLAT = Limit(statistic="median", factor=2.0, source="ours, for 'flat'")
ROUNDS = 3
WARM_UP = 20
IN_A_ROW = 100
STATES = {"steady": None, "all just touched, in order": False, "all just touched, in random order": True}
"""Whether every leaf is used again before a round, and whether in random order."""


def run(options: Options) -> Report:
    """See the module."""
    counts = (20, 50) if options.size == "tiny" else (1_000, 10_000, 100_000)
    times = options.pick(tiny=5, full=1_000)
    figures: list[Figure] = [Figure(name="an empty timed section", unit="us", samples=empty_section(times))]
    smallest: dict[str, Bound] = {}
    notes = []
    for count in counts:
        scenario = LeafChurn(count, options.page_size, options.seed)
        for state, shuffled in STATES.items():
            watches = _churn(scenario, times, shuffled)
            scenario.verify()
            for what, watch in zip(("evict", "insert"), watches, strict=True):
                key = f"{what}, {state}"
                limits = EVICTION_LIMITS if what == "evict" else ()
                bound = smallest.get(key)
                figure = Figure(
                    name=f"{key}, {count:,} leaves",
                    unit="us",
                    samples=watch.samples(),
                    bound=bound,
                    limits=limits if bound is None else (*limits, FLAT),
                )
                smallest.setdefault(key, Bound(name=f"{counts[0]:,} leaves", samples=figure.samples))
                figures.append(figure)
                notes += _collections(figure, watch) if what == "evict" else []
        figures.append(_in_a_row(scenario, count, times))
        scenario.verify()
    return Report(
        name="evict_insert",
        question="does evicting a page or adding a leaf cost more where there are many?",
        config={"leaves": list(counts), "rounds": ROUNDS, "calls_per_round": times, "policy": "lru"},
        figures=tuple(figures),
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


def _churn(scenario: LeafChurn, times: int, shuffled: bool | None) -> tuple[Stopwatch, Stopwatch]:
    with Collector() as collector:
        evictions, insertions = Stopwatch(collector), Stopwatch(collector)
        with frozen_heap():
            scenario.churn(WARM_UP, Stopwatch(), Stopwatch())  # the collector has just walked the whole heap
            for _ in range(ROUNDS):
                if shuffled is not None:
                    scenario.touch_all(shuffled=shuffled)
                scenario.churn(times, evictions, insertions)
    return evictions, insertions


def _in_a_row(scenario: LeafChurn, count: int, times: int) -> Figure:
    watch = Stopwatch()
    calls = min(IN_A_ROW, count)
    with frozen_heap():
        scenario.evict_in_a_row(calls, Stopwatch())
        for _ in range(max(1, ROUNDS * times // IN_A_ROW)):
            scenario.evict_in_a_row(calls, watch)
    return Figure(
        name=f"evict, steady, in a row, {count:,} leaves",
        unit="us",
        samples=watch.samples(calls),
        limits=EVICTION_LIMITS[:1],
    )


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
