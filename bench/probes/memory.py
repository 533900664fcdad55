"""Replays a trace and prints the bytes that the cache added for each token it holds."""

import gc
import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from bench.scenarios.life import serve
from bench.scenarios.replay import requests
from bench.workloads.trace import FreshOutputs, Trace
from radixcache import CacheConfig, PrefixCache, check


def traced_bytes() -> int:
    """Bytes of live allocations that tracemalloc sees; NumPy reports its own to it."""
    return tracemalloc.get_traced_memory()[0]


def resident_bytes() -> int:
    """Resident set of this process; 0 where the system has no /proc."""
    path = Path("/proc/self/statm")
    if not path.exists():
        return 0
    return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


METHODS: dict[str, Callable[[], int]] = {"traced": traced_bytes, "resident": resident_bytes}


def bytes_per_token(trace: Trace, method: str, *, rounds: int, num_pages: int, page_size: int) -> float:
    """Replay `rounds` shifted copies of a trace on one cache and weigh it.

    Raises:
        InvariantViolation: The cache is not in order at the end.
    """
    weigh = METHODS[method]
    if method == "traced":
        tracemalloc.start()
    gc.collect()
    before = weigh()
    cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
    outputs = FreshOutputs()
    for number in range(rounds):
        for prompt, output in requests(trace, outputs, shift=number * trace.num_blocks()):
            serve(cache, prompt, output)
        del prompt, output
    gc.collect()
    added = weigh() - before
    check(cache)
    return added / (cache.pages.evictable * page_size)


def main() -> None:
    """Run the job that the first argument describes in JSON."""
    job = json.loads(sys.argv[1])
    trace = Trace.load(Path(job.pop("trace")))
    print(bytes_per_token(trace, job.pop("method"), **job))


if __name__ == "__main__":
    main()
