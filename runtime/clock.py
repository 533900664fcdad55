"""Clocks. The only module of `runtime` that may read the time of day.

Simulated time is an integer number of picoseconds, so that sums do not depend on their order.
"""

import time
from typing import Final, Protocol

PS_PER_S: Final = 1_000_000_000_000
LONGEST_S: Final = 1e12
"""No time that somebody names is longer: sums of them stay numbers, in whatever unit. Unit: seconds."""


class Clock(Protocol):
    """What the engine loop asks for the time."""

    def now_ps(self) -> int:
        """Picoseconds since the clock's origin, never falling."""
        ...


class WallClock:
    """Monotonic time of the machine, from the moment the clock was made."""

    def __init__(self) -> None:
        self._origin_ns = time.monotonic_ns()

    def now_ps(self) -> int:
        """Picoseconds since this clock was made."""
        return (time.monotonic_ns() - self._origin_ns) * 1000


class VirtualClock:
    """Time that passes only when it is told to."""

    def __init__(self, start_ps: int = 0) -> None:
        self._now_ps = start_ps

    def now_ps(self) -> int:
        """Picoseconds that were let pass, plus the start."""
        return self._now_ps

    def advance_to(self, time_ps: int) -> None:
        """Let time pass until `time_ps`.

        Raises:
            ValueError: `time_ps` lies in the past.
        """
        if time_ps < self._now_ps:
            raise ValueError(f"time cannot go back from {self._now_ps} ps to {time_ps} ps")
        self._now_ps = time_ps


def seconds(time_ps: int) -> float:
    """Picoseconds as seconds."""
    return time_ps / PS_PER_S
