"""Who was overtaken as often as may be."""

from bisect import bisect_right, insort
from collections import OrderedDict
from typing import Final

import numpy as np

from scheduler.request import Request
from scheduler.waiting.rows import Array, NumberedRows
from scheduler.waiting.shortlist import high_bar

_NEVER: Final = 2**31 - 1
"""More than can be taken from it: a gap is never due."""

_SOME: Final = 8
_FEW: Final = 64
"""So many admissions are counted at once."""
_NEAR: Final = 24
"""About so many are counted one by one; at most `_MOST` times as many."""
_MOST: Final = 4


class Overtakes:
    """How often each waiting request may still be overtaken.

    A request is overtaken when one with a larger number is admitted for the first time, which takes one from
    what is left to all older ones. Limits may differ, so it is not always the oldest that reaches its own
    first: what is left stands in one column, oldest first, and falls for many admissions at once. A few of
    those who have least left are counted one by one, so that all are looked at only when others may be due,
    and then only if the oldest is not.

    Complexity:
        `arrived` and `left` O(1) amortised; `due` O(1) until so many were admitted as the least that was left
        when it last looked, then O(log waiting) where the oldest is due. Elsewhere O(waiting) in NumPy, once
        while so many are admitted as is left to all but the few.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Request] = OrderedDict()
        self._rows = NumberedRows([(np.int32, _NEVER)])
        self._at_least = _NEVER
        """No request has less left."""
        self._near: dict[int, int] = {}
        """What is left to a few, by number, oldest first."""
        self._others = _NEVER
        """Nobody else has less left."""
        self._admitted: list[int] = []
        """Numbers of those who were admitted and are not counted yet in what is left to others, rising."""

    def __len__(self) -> int:
        return len(self._waiting)

    def arrived(self, request: Request, limit: int) -> None:
        """A request waits, and may be overtaken `limit` times. Its number is larger than all others."""
        self._waiting[request.number] = request
        self._rows.append(request.number, min(limit, _NEVER))
        self._at_least = min(self._at_least, limit)
        self._others = min(self._others, limit)

    def left(self, number: int, *, admitted: bool) -> None:
        """A request was admitted for the first time, or ended while it waited."""
        is_oldest = next(iter(self._waiting)) == number
        del self._waiting[number]
        self._rows.remove(number)
        self._near.pop(number, None)
        if admitted and not is_oldest:
            self._overtake(number)

    def _overtake(self, number: int) -> None:
        """A request was admitted before some that are older."""
        self._at_least -= 1
        self._others -= 1
        for near, left in self._near.items():
            if near < number:
                self._near[near] = left - 1
        insort(self._admitted, number)
        if len(self._admitted) > min(len(self._waiting) + _SOME, _FEW):
            self._settle()

    def _settle(self) -> None:
        """Count those who were admitted: they overtook whoever is older. O(waiting) in NumPy."""
        self._rows.settle()
        if self._admitted:
            stops = self._rows.rows_of(self._admitted)
            overtaking = np.arange(len(stops), 0, -1, dtype=np.int32)
            self._rows.column(0)[: stops[-1]] -= overtaking.repeat(np.diff(stops, prepend=0))
            self._admitted.clear()

    def due(self) -> Request | None:
        """The oldest of those that must not be overtaken once more."""
        if self._at_least > 0 or not self._waiting:
            return None
        if self._others <= 0:
            number, oldest = next(iter(self._waiting.items()))
            if self._left_to(number, self._rows.row_of_first(number)) <= 0:
                return oldest
            self._settle()
            left = self._rows.column(0)
            self._find_near(left)
            row = int((left <= 0).argmax())
            if left[row] <= 0:
                return self._waiting[self._rows.number_at(row)]
        for number, left_to_it in self._near.items():
            if left_to_it <= 0:
                return self._waiting[number]
        self._at_least = min([self._others, *self._near.values()])
        return None

    def _find_near(self, left: Array) -> None:
        """Count those one by one who have least left."""
        bar = -int(high_bar(-left, _NEAR)) if len(left) > 2 * _NEAR else _NEVER
        rows = (left < bar).nonzero()[0]
        if len(rows) > _MOST * _NEAR:
            rows = np.sort(rows[left[rows].argsort()[:_NEAR]])
            bar = int(left[rows].max())
        self._near = dict(zip(self._rows.numbers[rows].tolist(), left[rows].tolist(), strict=True))
        self._others = bar

    def allowance(self, number: int) -> int:
        """How often a waiting request may still be overtaken."""
        return self._left_to(number, self._rows.row_of(number))

    def _left_to(self, number: int, row: int) -> int:
        counted = int(self._rows.column(0)[row])
        return counted - (len(self._admitted) - bisect_right(self._admitted, number))
