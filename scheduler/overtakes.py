"""Who was overtaken as often as may be."""

from bisect import bisect_right, insort
from collections import OrderedDict
from typing import Final

import numpy as np

from scheduler.request import Request
from scheduler.waiting.rows import NumberedRows

_NEVER: Final = 2**31 - 1
"""More than can be taken from it: a gap is never due."""

_SOME: Final = 8
_FEW: Final = 64


class Overtakes:
    """How often each waiting request may still be overtaken.

    A request is overtaken when one with a larger number is admitted for the first time, which takes one from
    what is left to all older ones. Limits may differ, so it is not always the oldest that reaches its own
    first: what is left stands in one column, oldest first, and falls for a whole piece of it at once, when
    somebody looks. Where the oldest is due, nobody else need be looked at.

    Complexity:
        `arrived` and `left` O(1) amortised; `due` O(1) until so many were admitted as the least that was left
        when it last looked, then O(log waiting) where the oldest is due, and O(waiting) in NumPy elsewhere.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Request] = OrderedDict()
        self._rows = NumberedRows([(np.int32, _NEVER)])
        self._at_least = _NEVER
        """No request has less left."""
        self._admitted: list[int] = []
        """Numbers of those who were admitted and are not counted yet in what is left to others, rising."""

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
            insort(self._admitted, number)
            if len(self._admitted) > min(len(self._waiting) + _SOME, _FEW):
                self._settle()

    def _settle(self) -> None:
        """Count those who were admitted: they overtook whoever is older. O(waiting) in NumPy."""
        self._rows.settle()
        left, start = self._rows.column(0), 0
        stops = self._rows.rows_of(self._admitted).tolist()
        for overtaking, stop in zip(range(len(self._admitted), 0, -1), stops, strict=True):
            left[start:stop] -= overtaking
            start = stop
        self._admitted.clear()

    def due(self) -> Request | None:
        """The oldest of those that must not be overtaken once more."""
        if self._at_least > 0 or not self._waiting:
            return None
        number, oldest = next(iter(self._waiting.items()))
        if self._left_to(number, self._rows.row_of_first(number)) <= 0:
            return oldest
        self._settle()
        left = self._rows.column(0)
        self._at_least = int(left.min())
        if self._at_least > 0:
            return None
        return self._waiting[self._rows.number_at(int((left <= 0).argmax()))]

    def allowance(self, number: int) -> int:
        """How often a waiting request may still be overtaken."""
        return self._left_to(number, self._rows.row_of(number))

    def _left_to(self, number: int, row: int) -> int:
        counted = int(self._rows.column(0)[row])
        return counted - (len(self._admitted) - bisect_right(self._admitted, number))
