"""Clocks and timed sections. Every section is timed by two clocks: CPU time of the thread, and wall time.

The wall clock is read inside the CPU clock, so CPU times contain two reads of the wall clock and one system
call of the CPU clock; `empty_section` shows how much that is here.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from time import perf_counter_ns, thread_time_ns

CPU = "cpu"
WALL = "wall"

Call = Callable[[], object]
Samples = dict[str, list[float]]
"""Microseconds by clock, in the order they were taken."""


class Collector:
    """Counts passes of Python's garbage collector while it is entered."""

    def __init__(self) -> None:
        self.passes = 0

    def _note(self, phase: str, info: dict[str, int]) -> None:
        self.passes += phase == "stop"

    def __enter__(self) -> "Collector":
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)


class Stopwatch:
    """Times sections and keeps every one.

    Args:
        collector: Where to see whether the garbage collector ran in a section.
    """

    def __init__(self, collector: Collector | None = None) -> None:
        self._cpu_ns: list[int] = []
        self._wall_ns: list[int] = []
        self._collector = collector or Collector()
        self.collected: set[int] = set()
        """Numbers of the sections in which the garbage collector ran."""

    def time(self, call: Call, calls: int = 1) -> None:
        """Run `call` once and note the time; with `calls` > 1 run it so often and note the total."""
        passes = self._collector.passes
        if calls == 1:
            cpu = thread_time_ns()
            wall = perf_counter_ns()
            call()
            wall = perf_counter_ns() - wall
            cpu = thread_time_ns() - cpu
        else:
            cpu = thread_time_ns()
            wall = perf_counter_ns()
            for _ in repeat(None, calls):
                call()
            wall = perf_counter_ns() - wall
            cpu = thread_time_ns() - cpu
        if self._collector.passes != passes:
            self.collected.add(len(self._cpu_ns))
        self._cpu_ns.append(cpu)
        self._wall_ns.append(wall)

    def samples(self, calls: int = 1) -> Samples:
        """Microseconds of each section, divided by the calls it held."""
        return {
            CPU: [round(ns / 1000 / calls, 4) for ns in self._cpu_ns],
            WALL: [round(ns / 1000 / calls, 4) for ns in self._wall_ns],
        }

    def mean(self) -> tuple[float, float]:
        """Mean CPU and wall time of a section. Unit: microseconds."""
        count = len(self._cpu_ns) * 1000
        return sum(self._cpu_ns) / count, sum(self._wall_ns) / count


@contextmanager
def frozen_heap() -> Iterator[None]:
    """Collect garbage and take what lives out of the collector's sight, as servers do before they serve."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def alternate(calls: Mapping[str, Call], *, num_samples: int, calls_per_sample: int) -> dict[str, Samples]:
    """Time several calls in turn, so that what disturbs one disturbs all.

    One sample of each goes first and is dropped.

    Args:
        calls: What to time, by name.
        num_samples: Samples of each, >= 1.
        calls_per_sample: Calls in a sample, >= 1; a sample is the mean of these.

    Returns:
        Microseconds a call, by name.
    """
    watches = {name: Stopwatch() for name in calls}
    with frozen_heap():
        for call in calls.values():
            Stopwatch().time(call, calls_per_sample)
        for _ in range(num_samples):
            for name, call in calls.items():
                watches[name].time(call, calls_per_sample)
    return {name: watch.samples(calls_per_sample) for name, watch in watches.items()}


def empty_section(num_samples: int) -> Samples:
    """What timing nothing takes: the floor under every section that holds one call."""
    watch = Stopwatch()
    for _ in range(num_samples):
        watch.time(_nothing)
    return watch.samples()


def _nothing() -> None:
    pass
