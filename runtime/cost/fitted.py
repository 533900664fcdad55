"""Time of an engine step as measured on a machine: a coefficient for each count, fitted to timed steps."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from radixcache.errors import InvalidArgument, InvalidConfig
from runtime.cost.load import StepLoad


class FittedCoefficients(NamedTuple):
    """Picoseconds for one unit of each count, none of them negative.

    Attributes:
        step: Fixed time of a step.
        token: For each token computed.
        row: For each row that needs logits.
        prefill_pair: For each query-key pair of rows that compute several tokens.
        decode_pair: For each query-key pair of rows that compute one: what their contexts cost.
    """

    step: int
    token: int
    row: int
    prefill_pair: int
    decode_pair: int


@dataclass(frozen=True, slots=True)
class FittedCost:
    """A linear `StepCost`: no roofline, no data sheet, only what was measured.

    It holds for the model, the machine and about the range of loads that it was fitted on.

    Attributes:
        coefficients: Of the counts.
        num_loads: Different loads that were measured; 0 where the coefficients were given.
        median_error: Median over these of |fitted / measured - 1|.

    Raises:
        InvalidConfig: A coefficient is negative.
    """

    coefficients: FittedCoefficients
    num_loads: int = 0
    median_error: float = 0.0

    def __post_init__(self) -> None:
        if min(self.coefficients) < 0:
            raise InvalidConfig(f"no coefficient is negative: {self.coefficients}")

    @classmethod
    def fit(cls, samples: Iterable[tuple[StepLoad, int]]) -> Self:
        """The coefficients that leave the least relative error over measured steps.

        Of steps with equal loads the median counts, once: what disturbs a step now and then disturbs no fit.

        Args:
            samples: Loads and how long they took, picoseconds.

        Raises:
            InvalidArgument: Fewer different loads than coefficients, or a time that is not positive.
        """
        by_load: dict[StepLoad, list[int]] = {}
        for load, elapsed_ps in samples:
            by_load.setdefault(load, []).append(elapsed_ps)
        times = np.array([statistics.median(taken) for taken in by_load.values()], dtype=np.float64)
        counts = np.array([_counts(load) for load in by_load], dtype=np.float64).reshape(len(times), -1)
        found = fit_nonnegative(counts, times)
        errors = np.abs(counts @ found / times - 1)
        return cls(
            FittedCoefficients(*(round(value) for value in found.tolist())),
            len(times),
            float(np.median(errors)),
        )

    def step_ps(self, load: StepLoad) -> int:
        """See `StepCost`. O(1)."""
        if load.num_tokens == 0:
            return 0
        return sum(
            coefficient * count for coefficient, count in zip(self.coefficients, _counts(load), strict=True)
        )

    def decode_run_ps(self, load: StepLoad, num_steps: int) -> int:
        """See `StepCost`. O(1).

        Raises:
            InvalidArgument: `num_steps` is negative, or `load` is no pure decode step.
        """
        if num_steps < 0:
            raise InvalidArgument(f"num_steps {num_steps} must be >= 0")
        if load.num_tokens != load.num_rows or load.prefill_pairs:
            raise InvalidArgument(f"in a pure decode step every row computes one token: {load}")
        growth = self.coefficients.decode_pair * load.num_rows
        return num_steps * self.step_ps(load) + growth * (num_steps * (num_steps - 1) // 2)

    def describe(self) -> dict[str, object]:
        """See `StepCost`."""
        return {
            "fitted_loads": self.num_loads,
            "median_relative_error": self.median_error,
            "coefficients_ps": self.coefficients._asdict(),
        }


def _counts(load: StepLoad) -> tuple[int, ...]:
    """In the order of `FittedCoefficients`."""
    return (1, load.num_tokens, load.num_rows, load.prefill_pairs, load.decode_pairs)


def fit_nonnegative(
    counts: npt.NDArray[np.float64], times: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Coefficients >= 0 with `counts @ coefficients` near `times`: least squares of the relative errors.

    The method is the active set of Lawson and Hanson, "Solving Least Squares Problems", 1974, chapter 23.

    Args:
        counts: float64 of shape [samples, k], >= 0.
        times: float64 of shape [samples], in any unit.

    Returns:
        float64 of shape [k], in that unit.

    Raises:
        InvalidArgument: Fewer samples than coefficients, or a time that is not positive and finite.
    """
    if len(times) < counts.shape[1]:
        raise InvalidArgument(f"{counts.shape[1]} coefficients need as many samples, got {len(times)}")
    if not (np.isfinite(times) & (times > 0)).all():
        raise InvalidArgument("measured times are positive and finite")
    relative = counts / times[:, None]
    # Columns differ by orders of magnitude; of one size they are well conditioned.
    sizes = np.linalg.norm(relative, axis=0)
    design = relative / np.where(sizes > 0, sizes, 1.0)
    goal = np.ones(len(times))
    found = np.zeros(counts.shape[1])
    free = np.zeros(counts.shape[1], dtype=np.bool_)
    while True:
        gain = np.where(free, -np.inf, design.T @ (goal - design @ found))
        if gain.max() <= 1e-10:
            return found / np.where(sizes > 0, sizes, 1.0)
        free[gain.argmax()] = True
        found = _solve_free(design, goal, found, free)


def _solve_free(
    design: npt.NDArray[np.float64],
    goal: npt.NDArray[np.float64],
    found: npt.NDArray[np.float64],
    free: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Least squares over the free coefficients; those that would fall below 0 are fixed there, in `free`."""
    while True:
        wanted = np.zeros_like(found)
        wanted[free] = np.linalg.lstsq(design[:, free], goal, rcond=None)[0]
        falling = free & (wanted <= 0)
        if not falling.any():
            return wanted
        share = (found[falling] / (found[falling] - wanted[falling])).min()
        found = found + share * (wanted - found)
        free &= found > 1e-12
        found[~free] = 0
