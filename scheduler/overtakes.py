"""Who was overtaken as often as may be."""

from typing import Final

import numpy as np

from scheduler.request import Request
from scheduler.waiting.rows import NumberedRows

_NEVER: Final = 2**31 - 1
"""More than can be taken from it: a gap is never due."""

_FEW: Final = 256


class Overtakes:
    """How often each waiting request may still be overtaken.

    A request is overtaken when one with a larger number is admitted for the first time, which takes one from
    what is left to all older ones. Limits may differ, so it is not always the oldest that reaches its own
    first: what is left stands in one column, oldest first, and falls for a whole piece of it at once, when
    somebody looks.

    Complexity:
        `arrived` and `left` O(1) amortised; `due` O(1) until so many were admitted as the least that was left
        when it last looked, then O(waiting) in NumPy, some 2 µs for 10,000 where one of the 256 oldest is
        due.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, Request] = {}
        self._rows = NumberedRows([(np.int32, _NEVER)])
        self._at_least = _NEVER
        """No request has less left."""
        self._admitted: list[int] = []
        """Numbers of those who were admitted and are not counted yet in what is left to others."""

    def __len__(self) -> int:
        return len(self._waiting)

    def arrived(self, request: Request, limit: int) -> None:
        """A request waits, and may be overtaken `limit` times. Its number is larger than all others."""
        self._waiting[request.number] = request
        self._rows.append(request.number, min(limit, _NEVER))
        self._at_least = min(self._at_least, limit)

    def left(self, number: int, *, admitted: bool) -> None:
        """A request was admitted for the first time, or ended while it waited."""
        del self._waiting[number]
        self._rows.remove(number)
        if admitted:
            self._at_least -= 1
            self._admitted.append(number)
            if len(self._admitted) > _FEW:
                self._settle()

    def _settle(self) -> None:
        """Count those who were admitted: they overtook whoever is older. O(waiting) in NumPy."""
        self._rows.settle()
        left, rows = self._rows.column(0), self._rows.rows_of(self._admitted)
        if isinstance(rows, int):
            left[:rows] -= 1
        elif len(rows):
            left -= np.cumsum(np.bincount(rows, minlength=len(left) + 1)[::-1], dtype=np.int32)[-2::-1]
        self._admitted.clear()

    def due(self) -> Request | None:
        """The oldest of those that must not be overtaken once more."""
        if self._at_least > 0:
            return None
        self._settle()
        left = self._rows.column(0)
        for start, stop in ((0, _FEW), (_FEW, len(left))):  # mostly it is one of the oldest
            due = (left[start:stop] <= 0).nonzero()[0]
            if len(due):
                return self._waiting[self._rows.number_at(start + int(due[0]))]
        self._at_least = int(left.min(initial=_NEVER))
        return None

    def allowance(self, number: int) -> int:
        """How often a waiting request may still be overtaken."""
        self._settle()
        return int(self._rows.column(0)[self._rows.row_of(number)])
