"""Compares counts with baselines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from bench.instructions.operations import Growth

TOLERANCE = 0.05

Verdict = Literal["holds", "MORE", "FEWER", "NEW", "GONE"]


@dataclass(frozen=True, slots=True)
class Change:
    """An operation, before and now.

    Attributes:
        operation: Its name.
        before: Instructions a call, as accepted; `None`: it has no baseline yet.
        now: Instructions a call; `None`: it is not counted any more.
    """

    operation: str
    before: int | None
    now: int | None

    @property
    def share(self) -> float | None:
        """The change as a share of the baseline; `None`: one of the two is missing."""
        return None if self.before is None or self.now is None else self.now / self.before - 1

    @property
    def verdict(self) -> Verdict:
        """Whether it is within the tolerance. Fewer must be accepted, too, or what was won is soon lost."""
        if self.before is None or self.now is None:
            return "NEW" if self.before is None else "GONE"
        allowed = TOLERANCE * self.before
        if abs(self.now - self.before) <= allowed:
            return "holds"
        return "MORE" if self.now > self.before else "FEWER"


@dataclass(frozen=True, slots=True)
class Grown:
    """A promise about complexity, and what was counted.

    Attributes:
        growth: The promise.
        factor: How much more the large size costs.
    """

    growth: Growth
    factor: float

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.factor <= self.growth.factor


def compare(before: Mapping[str, int], now: Mapping[str, int]) -> list[Change]:
    """Every operation with a baseline or a count, in the order of the counts; those that are gone last."""
    names = [*now, *(name for name in before if name not in now)]
    return [Change(name, before.get(name), now.get(name)) for name in names]


def measure_growth(growths: Iterable[Growth], now: Mapping[str, int]) -> list[Grown]:
    """What became of each promise.

    Raises:
        KeyError: One names an operation that was not counted.
    """
    return [Grown(growth, now[growth.large] / now[growth.small]) for growth in growths]
