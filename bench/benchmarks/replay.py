"""Serving a trace, request by request, with the cache and without."""

from bench.benchmarks.traces import capacities, expected_hit_rate, trace_of
from bench.errors import expect
from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import CPU, WALL, Stopwatch, frozen_heap
from bench.options import Options
from bench.scenarios.life import serve, serve_uncached
from bench.scenarios.replay import Serve, replay
from bench.workloads import page_lru
from bench.workloads.trace import Trace
from radixcache import PrefixCache, check

LIMIT = Limit(statistic="median", plus=100.0)
TOLERANCE = 5e-5


def run(options: Options) -> Report:
    """See the module."""
    trace = trace_of(options)
    repetitions = options.pick(tiny=1, full=5)
    prompt_tokens = int(trace.prompt_lens.sum())
    ceiling = page_lru.infinite_matched_tokens(trace, page_size=options.page_size)
    figures: list[Figure] = []
    notes = []
    for capacity in capacities(options):
        num_pages = capacity // options.page_size
        oracle = page_lru.replay(trace, num_pages=num_pages, page_size=options.page_size)
        cached, uncached, slowest = _Repeats(), _Repeats(), []
        for _ in range(repetitions):
            uncached.run(trace, serve_uncached, num_pages, options.page_size)
            cache, watch = cached.run(trace, serve, num_pages, options.page_size)
            expect("matched tokens", cache.stats.matched_tokens, oracle.matched_tokens)
            expect("evicted pages", cache.stats.evicted_pages, oracle.evicted_pages)
            expect("cached pages", cache.pages.evictable, oracle.cached_pages)
            check(cache)
            slowest.append(watch.samples()[CPU])
        hit_rate = oracle.matched_tokens / prompt_tokens
        known = expected_hit_rate(trace, capacity, options.page_size)
        figures += [
            Figure(
                name=f"a request, {capacity:,} tokens of capacity",
                unit="us",
                samples=cached.samples,
                bound=Bound(name="no cache", samples=uncached.samples),
                limits=(LIMIT,),
            ),
            Figure(
                name=f"hit rate, {capacity:,} tokens of capacity",
                unit="share of prompt tokens",
                samples={"value": [hit_rate]},
                bound=Bound(name="infinite cache", samples={"value": [ceiling / prompt_tokens]}),
                limits=()
                if known is None
                else (Limit(statistic="median", plus=known + TOLERANCE, low=known - TOLERANCE),),
            ),
        ]
        single = Figure(name="", unit="us", samples={CPU: slowest[0]})
        notes.append(
            f"{capacity:,} tokens are {capacity / trace.distinct_tokens():.1%} of the distinct prompt "
            f"tokens. Prefill tokens: {prompt_tokens:,} without a cache, "
            f"{prompt_tokens - oracle.matched_tokens:,} with it. "
            f"Single requests of the first repetition, CPU us: p50 "
            f"{single.statistic('median', CPU):.1f}, p99 {single.statistic('p99', CPU):.1f}, max "
            f"{single.statistic('max', CPU):.1f}."
        )
    return Report(
        name="replay",
        question="what does the cache cost a request of real traffic, and what does it save?",
        config={
            "trace": trace.name,
            "requests": len(trace),
            "prompt_tokens": prompt_tokens,
            "capacities": list(capacities(options)),
            "repetitions": repetitions,
        },
        figures=tuple(figures),
        notes=(
            *notes,
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
                "bench/workloads/page_lru.py) in every repetition."
            ),
        ),
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
