"""Serving a trace by its block ids alone: a page holds one token, a token is a block."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bench.benchmarks.traces import capacities, trace_of
from bench.errors import expect
from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import CPU, WALL, Samples, Stopwatch, frozen_heap
from bench.options import Options
from bench.scenarios.life import serve
from bench.workloads import page_lru
from bench.workloads.trace import BLOCK_SIZE, Trace
from radixcache import CacheConfig, PrefixCache, Tokens, check

LIMIT = Limit(statistic="median", plus=50.0)


def run(options: Options) -> Report:
    """See the module."""
    trace = trace_of(options)
    repetitions = options.pick(tiny=1, full=7)
    prompts = [Tokens(trace.blocks(request)) for request in range(len(trace))]
    whole_blocks = _whole_blocks(trace)
    figures, notes = [], []
    for capacity in capacities(options):
        num_blocks = capacity // BLOCK_SIZE
        oracle = page_lru.replay(whole_blocks, num_pages=num_blocks, page_size=BLOCK_SIZE)
        served: Samples = {CPU: [], WALL: []}
        walked: Samples = {CPU: [], WALL: []}
        for _ in range(repetitions):
            cache = PrefixCache(CacheConfig(num_pages=num_blocks, page_size=1))
            with frozen_heap():
                for kept, call in ((served, partial(serve, cache)), (walked, cache.peek)):
                    for clock, taken in _time_each(call, prompts).items():
                        kept[clock] += taken
            expect("matched blocks", cache.stats.matched_tokens * BLOCK_SIZE, oracle.matched_tokens)
            expect("evicted blocks", cache.stats.evicted_pages, oracle.evicted_pages)
            check(cache)
        figures.append(
            Figure(
                name=f"a request, {capacity:,} tokens of capacity",
                unit="us",
                samples=served,
                bound=Bound(name="peek, the walk alone", samples=walked),
                limits=(LIMIT,),
            )
        )
        notes.append(
            f"{capacity:,} tokens are {num_blocks:,} blocks: hit rate "
            f"{oracle.matched_tokens / int(whole_blocks.prompt_lens.sum()):.5f}, by blocks."
        )
    return Report(
        name="block_replay",
        question="how long does a request of a trace take, by block ids alone?",
        config={
            "trace": trace.name,
            "requests": len(trace),
            "blocks": len(trace.block_ids),
            "capacities": list(capacities(options)),
            "repetitions": repetitions,
        },
        figures=tuple(figures),
        notes=(
            "50 us a request are 20,000 requests a second.",
            (
                "A sample is the mean over all requests of one repetition on a fresh cache: open, reserve, "
                "advance, close; making the tokens is excluded, outputs are left out. Matches and evictions "
                "equal those of an exact LRU of blocks (bench/workloads/page_lru.py)."
            ),
            "The last block of a prompt is never matched here, as a prompt's last token is not.",
            *notes,
        ),
    )


def _whole_blocks(trace: Trace) -> Trace:
    """The trace as the cache sees it here: full blocks, no outputs."""
    counts = np.diff(trace.block_starts)
    return replace(trace, prompt_lens=counts * BLOCK_SIZE, output_lens=0 * counts)


def _time_each(call: Callable[[Tokens], object], prompts: list[Tokens]) -> Samples:
    """Mean time of a call. Unit: microseconds."""

    def every() -> None:
        for prompt in prompts:
            call(prompt)

    watch = Stopwatch()
    watch.time(every)
    return watch.samples(len(prompts))
