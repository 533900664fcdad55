"""Serving a trace, request by request: what it costs, and what it finds beside what could be found."""

from dataclasses import dataclass, field

from bench.benchmarks.traces import capacities, expected_hit_rate, replayed_pages, trace_of
from bench.errors import WrongResult, expect
from bench.harness.report import Bound, Figure, Limit, Picture, Report
from bench.harness.timing import CPU, WALL, Stopwatch, frozen_heap
from bench.options import Options
from bench.scenarios.life import serve, serve_uncached
from bench.scenarios.replay import Serve, replay
from bench.workloads import page_lru
from bench.workloads.trace import Trace
from radixcache import PrefixCache, check
from runtime.lab import CapacityCurve, PageTrace, lru_curve, optimum_tokens

LIMIT = Limit(statistic="median", plus=100.0)
TOLERANCE = 5e-5
CEILING, OPTIMUM, CURVE = "infinite cache", "clairvoyant optimum", "LRU curve"
BESIDE = {CEILING: "", OPTIMUM: ", beside the optimum", CURVE: ", beside the curve"}
NUM_OPTIMA = 12
"""Capacities at which the optimum is drawn, besides those that are replayed."""

NOTES = (
    (
        "A sample is the mean over all requests of one repetition on a fresh cache; making the "
        "tokens is excluded. Outputs are fresh tokens, appended in one call and published at the end."
    ),
    (
        "Without a cache: the same verbs with read=False and write=False, that is pages only. What "
        "it saves in bookkeeping it pays in prefill, which this replay does not run."
    ),
    (
        "Matched tokens, evictions and cached pages equal those of an exact page LRU (a dictionary, "
        "bench/workloads/page_lru.py) in every repetition, so hit rates have one sample."
    ),
)


@dataclass(slots=True)
class _Found:
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    measured: dict[int, float] = field(default_factory=dict)
    """Hit rates by capacity."""


def run(options: Options) -> Report:
    """See the module."""
    trace = trace_of(options)
    repetitions = options.pick(tiny=1, full=5)
    pages = replayed_pages(trace, options.page_size)
    curve = lru_curve(pages)
    found = _Found()
    for capacity in capacities(options):
        _replay_at(found, trace, capacity, pages, curve, repetitions)
    return Report(
        name="replay",
        question="what does the cache cost a request of real traffic, and what does it save?",
        config={
            "trace": trace.name,
            "requests": len(trace),
            "prompt_tokens": curve.prompt_tokens,
            "capacities": list(capacities(options)),
            "repetitions": repetitions,
        },
        figures=tuple(found.figures),
        notes=(*found.notes, *NOTES, _about_bounds(pages)),
        pictures=(_picture(trace, pages, curve, found.measured),),
    )


def _replay_at(
    found: _Found, trace: Trace, capacity: int, pages: PageTrace, curve: CapacityCurve, repetitions: int
) -> None:
    """Replay at one capacity, in turn with and without the cache, and put down what came of it."""
    page_size = pages.page_size
    num_pages = capacity // page_size
    oracle = page_lru.replay(trace, num_pages=num_pages, page_size=page_size)
    cached, uncached, slowest = _Repeats(), _Repeats(), []
    for _ in range(repetitions):
        uncached.run(trace, serve_uncached, num_pages, page_size)
        cache, watch = cached.run(trace, serve, num_pages, page_size)
        expect("matched tokens", cache.stats.matched_tokens, oracle.matched_tokens)
        expect("evicted pages", cache.stats.evicted_pages, oracle.evicted_pages)
        expect("cached pages", cache.pages.evictable, oracle.cached_pages)
        check(cache)
        slowest.append(watch.samples()[CPU])
    bounds = {
        CEILING: curve.ceiling_pages * page_size,
        OPTIMUM: optimum_tokens(pages, capacity),
        CURVE: int(curve.hit_tokens(capacity)),
    }
    _check_bounds(oracle.matched_tokens, bounds, pages)
    found.figures.append(
        Figure(
            name=f"a request, {capacity:,} tokens of capacity",
            unit="us",
            samples=cached.samples,
            bound=Bound(name="no cache", samples=uncached.samples),
            limits=(LIMIT,),
        )
    )
    found.measured[capacity] = oracle.matched_tokens / curve.prompt_tokens
    found.figures += _hit_rates(trace, capacity, page_size, found.measured[capacity], bounds, curve)
    found.notes.append(_note(trace, capacity, oracle.matched_tokens, slowest[0]))


def _check_bounds(matched: int, bounds: dict[str, int], pages: PageTrace) -> None:
    """Hits are those that the stack distances predict, and no more than the optimum.

    A request that adds no page need not refresh its last one, as the curve assumes: a page each may differ.
    """
    off = abs(matched - bounds[CURVE])
    if off > pages.num_untouched * pages.page_size:
        raise WrongResult(f"matched tokens: found {matched}, the LRU curve says {bounds[CURVE]}")
    most = bounds[OPTIMUM] + pages.num_unmatched * pages.page_size
    expect("LRU <= optimum <= infinite cache", matched <= most and bounds[OPTIMUM] <= bounds[CEILING], True)


def _hit_rates(
    trace: Trace, capacity: int, page_size: int, hit_rate: float, bounds: dict[str, int], curve: CapacityCurve
) -> list[Figure]:
    """The hit rate beside each bound."""
    known = expected_hit_rate(trace, capacity, page_size)
    exact = (
        () if known is None else (Limit(statistic="median", plus=known + TOLERANCE, low=known - TOLERANCE),)
    )
    return [
        Figure(
            name=f"hit rate, {capacity:,} tokens of capacity" + BESIDE[name],
            unit="share of prompt tokens",
            samples={"value": [hit_rate]},
            bound=Bound(name=name, samples={"value": [tokens / curve.prompt_tokens]}),
            limits=exact if name == CEILING else (),
        )
        for name, tokens in bounds.items()
    ]


def _note(trace: Trace, capacity: int, matched: int, single_us: list[float]) -> str:
    prompt_tokens = int(trace.prompt_lens.sum())
    single = Figure(name="", unit="us", samples={CPU: single_us})
    p50, p99, slowest = (single.statistic(name, CPU) for name in ("median", "p99", "max"))
    return (
        f"{capacity:,} tokens are {capacity / trace.distinct_tokens():.1%} of the distinct prompt tokens. "
        f"Prefill tokens: {prompt_tokens:,} without a cache, {prompt_tokens - matched:,} with it. Single "
        f"requests of the first repetition, CPU us: p50 {p50:.1f}, p99 {p99:.1f}, max {slowest:.1f}."
    )


def _about_bounds(pages: PageTrace) -> str:
    return (
        "The LRU curve comes from the trace's stack distances (runtime.lab), at every capacity in one pass. "
        f"Measured hits equal it, up to a page for each of {pages.num_untouched} requests that add no page. "
        "The optimum knows the future and evicts what is used again last; it may be short by "
        f"{pages.num_unmatched} pages that hold a prompt's last token."
    )


def _picture(trace: Trace, pages: PageTrace, curve: CapacityCurve, measured: dict[int, float]) -> Picture:
    sizes = sorted({size for size, _ in curve.points(NUM_OPTIMA)} | measured.keys())
    optima = {size: optimum_tokens(pages, size) for size in sizes}
    return Picture(
        name="replay_hit_rate",
        title=f"Hit rate: {trace.name}",
        x="tokens of capacity",
        y="share of prompt tokens",
        lines={
            CURVE: [(float(size), rate) for size, rate in curve.points()],
            "measured": [(float(size), rate) for size, rate in measured.items()],
            OPTIMUM: [(float(size), tokens / curve.prompt_tokens) for size, tokens in optima.items()],
        },
        levels={CEILING: curve.ceiling_rate},
        log="x",
    )


class _Repeats:
    def __init__(self) -> None:
        self.samples: dict[str, list[float]] = {CPU: [], WALL: []}

    def run(
        self, trace: Trace, serve: Serve, num_pages: int, page_size: int
    ) -> tuple[PrefixCache, Stopwatch]:
        with frozen_heap():
            cache, watch = replay(trace, serve, num_pages=num_pages, page_size=page_size)
        cpu, wall = watch.mean()
        self.samples[CPU].append(cpu)
        self.samples[WALL].append(wall)
        return cache, watch
