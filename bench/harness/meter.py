"""Adds up many short sections that together are one sample."""

from collections.abc import Callable
from statistics import median
from time import perf_counter_ns, thread_time_ns
from typing import ParamSpec, TypeVar

from bench.harness.timing import CPU, WALL, Samples

_Args = ParamSpec("_Args")
_Found = TypeVar("_Found")


class Meter:
    """A stopwatch that goes on where it stopped, until `lap` closes the sample.

    Times contain the clock itself once for each section (`timing.empty_section`); `samples` can take it out.

    Attributes:
        num_sections: Sections timed so far.
    """

    def __init__(self) -> None:
        self._laps: dict[str, list[tuple[int, int, int]]] = {}
        self._cpu_ns = self._wall_ns = self._in_lap = self.num_sections = 0

    def time(self, call: Callable[_Args, _Found], *args: _Args.args, **options: _Args.kwargs) -> _Found:
        """Run `call` and add its time to the sample; returns what it returns."""
        cpu = thread_time_ns()
        wall = perf_counter_ns()
        found = call(*args, **options)
        self._wall_ns += perf_counter_ns() - wall
        self._cpu_ns += thread_time_ns() - cpu
        self._in_lap += 1
        self.num_sections += 1
        return found

    def lap(self, kind: str = "") -> None:
        """Close the sample, as one of that kind."""
        self._laps.setdefault(kind, []).append((self._cpu_ns, self._wall_ns, self._in_lap))
        self._cpu_ns = self._wall_ns = self._in_lap = 0

    def clear(self) -> None:
        """Forget everything."""
        self._laps.clear()
        self._cpu_ns = self._wall_ns = self._in_lap = self.num_sections = 0

    def samples(self, kind: str = "", *, empty: Samples | None = None) -> Samples:
        """Microseconds of each sample of that kind.

        Args:
            kind: Which.
            empty: What empty sections took; their median is taken out of a sample once for each section.
        """
        cpu, wall = (0.0, 0.0) if empty is None else (median(empty[CPU]), median(empty[WALL]))
        laps = self._laps[kind]
        return {
            CPU: [round(cpu_ns / 1000 - sections * cpu, 4) for cpu_ns, _, sections in laps],
            WALL: [round(wall_ns / 1000 - sections * wall, 4) for _, wall_ns, sections in laps],
        }
