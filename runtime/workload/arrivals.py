"""When sessions start. Every process draws from the generator it is given and nothing else."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from runtime.errors import WorkloadError


class ArrivalProcess(Protocol):
    """Start times of sessions."""

    def start_times(self, num_sessions: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """`[num_sessions], float64`: seconds from 0, not falling. O(num_sessions)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Poisson:
    """Independent arrivals: exponential gaps.

    Attributes:
        rate_per_s: Mean arrivals a second, > 0.
    """

    rate_per_s: float

    def __post_init__(self) -> None:
        _check_positive("rate_per_s", self.rate_per_s)

    def start_times(self, num_sessions: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """See `ArrivalProcess`."""
        return np.cumsum(rng.exponential(1 / self.rate_per_s, num_sessions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """Equal gaps, the first arrival at 0.

    Attributes:
        rate_per_s: Arrivals a second, > 0.
    """

    rate_per_s: float

    def __post_init__(self) -> None:
        _check_positive("rate_per_s", self.rate_per_s)

    def start_times(self, num_sessions: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """See `ArrivalProcess`."""
        return np.arange(num_sessions, dtype=np.float64) / self.rate_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursty:
    """Gamma-distributed gaps: bursts and lulls at the same mean rate.

    Attributes:
        rate_per_s: Mean arrivals a second, > 0.
        variation: Coefficient of variation of the gaps, > 0; 1 is Poisson, more is burstier.
    """

    rate_per_s: float
    variation: float = 3.0

    def __post_init__(self) -> None:
        _check_positive("rate_per_s", self.rate_per_s)
        _check_positive("variation", self.variation)

    def start_times(self, num_sessions: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """See `ArrivalProcess`."""
        shape = 1 / self.variation**2
        return np.cumsum(rng.gamma(shape, 1 / (shape * self.rate_per_s), num_sessions))


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise WorkloadError(f"{name} {value} must be a finite number > 0")
