"""The row of a comparison that says what a cached token weighs."""

import ctypes
import gc
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.errors import WrongResult
from bench.harness.report import Figure, Setting
from bench.options import Options
from bench.peers.contender import Build, Contender
from bench.workloads.trace import FreshOutputs, Trace

UNIT = "bytes a cached token"


def settings(options: Options) -> dict[str, Setting]:
    """Every setting of this row that a rerun needs."""
    return {"weighed_requests": _num_requests(options), "weighed_capacity": _capacity(options)}


def weigh(build: Build, options: Options, trace: Trace, *, traced: bool) -> Iterator[Figure]:
    """What a token weighs that a cache holds after a part of the trace; to be run first in a process.

    The resident set is read before tracemalloc is started, on a cache of its own. Before that, a small cache
    is filled and dropped, so that what is imported or made at first use is not counted.

    Args:
        build: Makes the contender.
        options: As given to the run.
        trace: Its start is served.
        traced: Whether tracemalloc sees the contender's memory at all.

    Raises:
        WrongResult: The cache holds more than its capacity, or less than half of it.
    """
    small = trace.first(min(20, len(trace)))
    _fill(build(_capacity(options) // options.page_size, options.page_size), small)
    part = trace.first(min(_num_requests(options), len(trace)))
    yield from _weigh("resident set", build, options, part, resident_bytes)
    if traced:
        tracemalloc.start()
        try:
            yield from _weigh("tracemalloc", build, options, part, traced_bytes)
        finally:
            tracemalloc.stop()


def _weigh(
    method: str, build: Build, options: Options, part: Trace, read: Callable[[], int]
) -> Iterator[Figure]:
    capacity = _capacity(options)
    before = read()
    contender = build(capacity // options.page_size, options.page_size)
    empty = read()
    _fill(contender, part)
    full, held = read(), contender.cached_tokens()
    if not capacity // 2 <= held <= capacity:
        raise WrongResult(f"{held} tokens cached at a capacity of {capacity}")
    for base, weight in (("an empty cache", full - empty), ("no cache", full - before)):
        name = f"growth over {base}, {method}"
        yield Figure(name=name, unit=UNIT, samples={"value": [weight / held]})


def _fill(contender: Contender, trace: Trace) -> None:
    outputs = FreshOutputs()
    for request in range(len(trace)):
        output = outputs.take(int(trace.output_lens[request]))
        contender.serve(contender.make_tokens(trace.prompt(request)), contender.make_tokens(output))


def traced_bytes() -> int:
    """Bytes of live allocations that tracemalloc sees: those of Python and of NumPy."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def resident_bytes() -> int:
    """Resident set of this process, after the C library gave back what it can; 0 without /proc."""
    gc.collect()
    path = Path("/proc/self/statm")
    if not path.exists():
        return 0
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return int(path.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _num_requests(options: Options) -> int:
    return options.pick(tiny=60, full=400)


def _capacity(options: Options) -> int:
    return options.pick(tiny=200_000, full=3_000_000)
