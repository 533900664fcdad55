"""How fast the hit rate at all capacities, and the optimum at one, are found."""

from dataclasses import replace

from bench.benchmarks.traces import capacities, trace_of, workload_of
from bench.errors import expect
from bench.harness.report import Figure, Limit, Report
from bench.harness.timing import Stopwatch, frozen_heap
from bench.options import Options
from bench.workloads import page_lru
from bench.workloads.trace import Trace
from runtime.lab import CapacityCurve, PageTrace, lru_curve, optimal_hits, page_trace
from runtime.workload import Workload

LIMIT = Limit(statistic="median", plus=2.5)


def run(options: Options) -> Report:
    """See the module."""
    trace, workload = trace_of(options), workload_of(options)
    repetitions = options.pick(tiny=2, full=7)
    pages = page_trace(workload, page_size=options.page_size)
    curve = lru_curve(pages)
    _verify(trace, workload, options)
    whole, walk, optimum = Stopwatch(), Stopwatch(), Stopwatch()
    sizes = [size for size in capacities(options) if size >= curve.min_capacity_tokens]
    with frozen_heap():
        for _ in range(repetitions):
            whole.time(lambda: lru_curve(page_trace(workload, page_size=options.page_size)))
            walk.time(lambda: lru_curve(pages))
            for size in sizes:
                optimum.time(lambda size=size: optimal_hits(pages, size))  # type: ignore[misc]
    touches = pages.num_touches
    return Report(
        name="curve_speed",
        question="how long do the hit rate at every capacity, and the optimum at one, take?",
        config={
            "trace": trace.name,
            "requests": len(pages),
            "page_touches": touches,
            "reuses": len(pages.start),
            "capacities": sizes,
            "repetitions": repetitions,
        },
        figures=(
            Figure(
                name="the curve, from the workload on, a page touch",
                unit="us",
                samples=whole.samples(touches),
                limits=(LIMIT,),
            ),
            Figure(
                name="the curve, from the reuses on, a page touch", unit="us", samples=walk.samples(touches)
            ),
            Figure(
                name="the optimum at one capacity, a page touch", unit="us", samples=optimum.samples(touches)
            ),
            Figure(name="the curve, from the workload on", unit="us", samples=whole.samples()),
            Figure(name="the optimum at one capacity", unit="us", samples=optimum.samples()),
        ),
        notes=(
            "2.5 us a page touch are 400,000 page touches a second.",
            (
                "Runs of pages are followed, not pages, so a trace with longer prompts takes less a page. "
                "Making the runs out of the workload is in the first figure and not in the others."
            ),
            *_hit_rates(curve, pages, sizes),
            (
                "Hits without outputs equal those of an exact page LRU (a dictionary, "
                "bench/workloads/page_lru.py) at each capacity; LRU <= optimum <= ceiling."
            ),
        ),
    )


def _verify(trace: Trace, workload: Workload, options: Options) -> None:
    """Raise `WrongResult` unless the curve agrees with an LRU made of a dictionary."""
    prompts_only = replace(trace, output_lens=0 * trace.output_lens)
    pages = page_trace(workload, page_size=options.page_size, outputs=False)
    curve = lru_curve(pages)
    for size in capacities(options):
        if size < curve.min_capacity_tokens:
            continue
        oracle = page_lru.replay(
            prompts_only, num_pages=size // options.page_size, page_size=options.page_size
        )
        found = int(curve.hit_tokens(size))
        expect(f"hit tokens at {size}", found, oracle.matched_tokens)
        best = int(optimal_hits(pages, size).sum()) * options.page_size
        ceiling = pages.ceiling_pages * options.page_size
        expect("LRU <= optimum <= ceiling", found <= best <= ceiling, wanted=True)


def _hit_rates(curve: CapacityCurve, pages: PageTrace, sizes: list[int]) -> list[str]:
    """A note for each capacity."""
    return [
        f"{size:,} tokens: LRU {float(curve.hit_rate(size)):.5f}, optimum "
        f"{int(optimal_hits(pages, size).sum()) * pages.page_size / curve.prompt_tokens:.5f}, without limit "
        f"{curve.ceiling_rate:.5f}."
        for size in sizes
    ]
