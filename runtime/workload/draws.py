"""Seeded draws that generators share: token ids without chance repeats, lengths, popularity."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from runtime.errors import WorkloadError
from runtime.workload.model import FRESH_TOKEN_BASE, Literal


class TokenSource:
    """Literal tokens that look random, and of which no two are equal.

    The n-th token is `(multiplier * n + offset) mod 2**30` with an odd multiplier, a permutation of
    all ids: two literals share a token only if they are one literal. So every hit in a generated
    workload is there on purpose.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._multiplier = int(rng.integers(FRESH_TOKEN_BASE // 4, FRESH_TOKEN_BASE)) | 1
        self._offset = int(rng.integers(FRESH_TOKEN_BASE))
        self._drawn = 0

    def literal(self, num_tokens: int) -> Literal:
        """`num_tokens` new tokens.

        Raises:
            WorkloadError: All 2**30 ids are used up.
        """
        end = self._drawn + num_tokens
        if end > FRESH_TOKEN_BASE:
            raise WorkloadError(f"the workload needs more than {FRESH_TOKEN_BASE} distinct tokens")
        numbers = np.arange(self._drawn, end, dtype=np.uint64)
        mixed = numbers * np.uint64(self._multiplier) + np.uint64(self._offset)
        self._drawn = end
        return Literal((mixed % np.uint64(FRESH_TOKEN_BASE)).astype(np.int32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Log-normal lengths, cut at both ends.

    Attributes:
        median: Tokens, >= 1.
        sigma: Spread of the logarithm, >= 0; 0 makes all lengths equal.
        low: Shortest, tokens, >= 1.
        high: Longest, tokens, >= `low`.
    """

    median: float
    sigma: float = 0.6
    low: int = 1
    high: int = 32768

    def __post_init__(self) -> None:
        if not (1 <= self.low <= self.median <= self.high and self.sigma >= 0):
            raise WorkloadError(f"need 1 <= low <= median <= high and sigma >= 0, not {self}")

    def draw(self, rng: np.random.Generator) -> int:
        """One length, tokens."""
        return int(self.draw_many(rng, 1)[0])

    def draw_many(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        """`[count], int64`: lengths, tokens."""
        drawn = rng.lognormal(math.log(self.median), self.sigma, count)
        return np.clip(np.rint(drawn), self.low, self.high).astype(np.int64)


def zipf_weights(count: int, exponent: float) -> npt.NDArray[np.float64]:
    """Probabilities of `count` things by popularity: the k-th is proportional to `k ** -exponent`.

    Raises:
        WorkloadError: `count` < 1, or a negative exponent.

    Example:
        >>> zipf_weights(2, 1.0).round(3).tolist()
        [0.667, 0.333]
    """
    if count < 1 or not exponent >= 0:
        raise WorkloadError(f"Zipf over {count} things with exponent {exponent} is not defined")
    ranks = np.arange(1, count + 1, dtype=np.float64)
    weights: npt.NDArray[np.float64] = ranks**-exponent
    weights /= weights.sum()
    return weights


def check_counts(**counts: int) -> None:
    """Refuse counts below 1.

    Raises:
        WorkloadError: Names the first of them.
    """
    for name, value in counts.items():
        if value < 1:
            raise WorkloadError(f"{name} {value} must be >= 1")


def check_mean(name: str, value: float) -> None:
    """Refuse means of a number of steps, of which there is always one.

    Raises:
        WorkloadError: `value` is below 1 or not finite.
    """
    if not (math.isfinite(value) and value >= 1):
        raise WorkloadError(f"{name} {value} must be a finite number >= 1")


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability.

    Raises:
        WorkloadError: `value` lies outside [0, 1].
    """
    if not 0 <= value <= 1:
        raise WorkloadError(f"{name} {value} lies outside [0, 1]")


def check_seconds(name: str, value: float) -> None:
    """Refuse what is no duration.

    Raises:
        WorkloadError: `value` is negative or not finite.
    """
    if not (math.isfinite(value) and value >= 0):
        raise WorkloadError(f"{name} {value} must be a finite number >= 0")


def seeded(seed: int) -> np.random.Generator:
    """The generator for `seed`.

    Raises:
        WorkloadError: `seed` is negative.
    """
    if seed < 0:
        raise WorkloadError(f"seed {seed} must be >= 0")
    return np.random.default_rng(seed)


def geometric(rng: np.random.Generator, mean: float, high: int) -> int:
    """A geometric number of steps with that mean before the cut, from 1 to `high`."""
    return min(int(rng.geometric(1 / mean)), high)
