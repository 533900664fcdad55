"""A trace served request by request, each before the next."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.harness.timing import Stopwatch
from bench.workloads.trace import FreshOutputs, Trace
from radixcache import CacheConfig, PrefixCache, Tokens

Serve = Callable[[PrefixCache, Tokens, Tokens], int]


def requests(trace: Trace, outputs: FreshOutputs, shift: int = 0) -> Iterator[tuple[Tokens, Tokens]]:
    """Prompt and output of each request, ready made."""
    for request in range(len(trace)):
        output = outputs.take(int(trace.output_lens[request]))
        yield Tokens(trace.prompt(request, shift)), Tokens(output)


def replay(trace: Trace, serve: Serve, *, num_pages: int, page_size: int) -> tuple[PrefixCache, Stopwatch]:
    """Serve the trace on a fresh cache.

    Returns:
        The cache as it is afterwards, and the time of each request without making its tokens.
    """
    cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
    watch = Stopwatch()
    for prompt, output in requests(trace, FreshOutputs()):
        watch.time(partial(serve, cache, prompt, output))
    return cache, watch
