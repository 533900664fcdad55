"""The rates that a planner tries, one step apart: how densely sessions start, or how many users there are."""

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from radixcache.errors import InvalidConfig
from runtime.simulation import ClosedLoop, OpenLoop, Pace
from runtime.workload import Workload

PaceKind: TypeAlias = Literal["rate", "users"]

_WIDEST: Final = 4096
_FIRST_USERS: Final = 8


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rates in ascending order, each at most a factor 1 + tolerance above the last, or one user more.

    Attributes:
        kind: What the values are.
        values: The rates: how many times as densely sessions start, or numbers of users.
        start: Which of them to try first.
        doubling: Steps after which a rate has about doubled, >= 1.
    """

    kind: PaceKind
    values: tuple[float, ...]
    start: int
    doubling: int

    @classmethod
    def of(cls, kind: PaceKind, workload: Workload, tolerance: float) -> "Ladder":
        """The ladder for a workload.

        Rates go from 1/4096 to 4096 times the workload's own; users from 1 to one for each session.

        Raises:
            InvalidConfig: The tolerance lies outside (0, 1].
        """
        if not 0 < tolerance <= 1:
            raise InvalidConfig(f"the tolerance lies in (0, 1], got {tolerance}")
        doubling = max(1, round(math.log(2) / math.log1p(tolerance)))
        count = math.ceil(math.log(_WIDEST) / math.log1p(tolerance))
        if kind == "rate":
            values = tuple((1 + tolerance) ** step for step in range(-count, count + 1))
            return cls(kind, values, count, doubling)
        users = _users(len(workload.sessions), tolerance)
        start = max(number for number, value in enumerate(users) if value <= _FIRST_USERS)
        return cls(kind, users, start, doubling)

    def pace(self, step: int) -> Pace:
        """The pace of a step."""
        value = self.values[step]
        return OpenLoop(value) if self.kind == "rate" else ClosedLoop(int(value))


def _users(most: int, tolerance: float) -> tuple[float, ...]:
    users = [1]
    while users[-1] < most:
        users.append(min(most, max(users[-1] + 1, int(users[-1] * (1 + tolerance)))))
    return tuple(map(float, users))
