"""How long until something is used again: counted by class and age, forgotten by halves.

Knows nothing of nodes or policies: it follows `Followed` things from one age to the next and counts, for
every class, how many reached an age and how many were used at it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable
from typing import Final

import numpy as np
import numpy.typing as npt

NUM_BINS: Final = 24
BINS_PER_DOUBLING: Final = 2
FIRST_EDGE: Final = 1 / 64
"""End of the youngest bin, in turnovers of the pool; the oldest begins at 32."""

MAX_FOLLOWED: Final = 16384
HALVE_EVERY: Final = 16384
MAX_MOVES: Final = 256

Counts = npt.NDArray[np.float64]


class AgeBins:
    """Ages on a scale of turnovers: bins whose width grows with the age.

    Args:
        turnover: Age that counts as one turnover.
    """

    def __init__(self, turnover: float) -> None:
        steps = range(NUM_BINS - 1)
        self.edges = [0.0, *(turnover * FIRST_EDGE * 2.0 ** (step / BINS_PER_DOUBLING) for step in steps)]
        self.ends = [*self.edges[1:], float("inf")]

    def of(self, age: float) -> int:
        """The bin of an age."""
        return bisect_right(self.edges, age) - 1


class Followed:
    """Something that may be used again.

    Attributes:
        born: When it was used last.
        row: Its class, as a row of the table.
        first_bin: The youngest bin it was counted in.
        age_bin: The oldest bin it was counted in.
        is_open: Neither used again nor given up so far.
    """

    __slots__ = ("age_bin", "born", "first_bin", "is_open", "row")

    def __init__(self, born: float) -> None:
        self.born = born
        self.row = 0
        self.first_bin = self.age_bin = 0
        self.is_open = False


class SurvivalTable:
    """Of those of a class that reached an age, how many were used again at that age.

    Counts halve after every `HALVE_EVERY` openings, so that what was true once is forgotten. At most
    `MAX_FOLLOWED` are followed at a time; those that come while it is full are not counted, whatever becomes
    of them. What is as old as the last bin is given up.

    Attributes:
        at_risk: Those that reached a bin, `[NUM_BINS, rows]`; half of each that is in it
            still, as it has seen only part of the bin (the actuarial estimate).
        returns: Those used again in it, `[NUM_BINS, rows]`.

    Complexity:
        `open`, `returned`, `withdraw`: O(1) and O(NUM_BINS). `advance`: O(NUM_BINS + MAX_MOVES) at worst,
        O(NUM_BINS) for each opening in all.
    """

    def __init__(self, bins: AgeBins) -> None:
        self.bins = bins
        self.rows: dict[Hashable, int] = {}
        self.at_risk: Counts = np.zeros((NUM_BINS, 16))
        self.returns: Counts = np.zeros((NUM_BINS, 16))
        self.num_opened = 0
        self._num_followed = 0
        self._queues: list[deque[Followed]] = [deque() for _ in range(NUM_BINS - 1)]

    def row(self, key: Hashable) -> int:
        """The row of a class, made if there is none."""
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = len(self.rows)
            if row == self.at_risk.shape[1]:
                self.at_risk = np.hstack([self.at_risk, np.zeros_like(self.at_risk)])
                self.returns = np.hstack([self.returns, np.zeros_like(self.returns)])
        return row

    def open(self, thing: Followed, row: int, now: float) -> None:
        """Follow `thing` from its present age on."""
        self.num_opened += 1
        if self.num_opened % HALVE_EVERY == 0:
            self.at_risk *= 0.5
            self.returns *= 0.5
        thing.row = row
        thing.first_bin = thing.age_bin = self.bins.of(now - thing.born)
        if self._num_followed < MAX_FOLLOWED and thing.age_bin < NUM_BINS - 1:
            thing.is_open = True
            self._num_followed += 1
            self.at_risk[thing.age_bin, row] += 0.5
            self._queues[thing.age_bin].append(thing)

    def withdraw(self, thing: Followed) -> None:
        """Uncount `thing`: it was followed by mistake, or something else takes its place."""
        if thing.is_open:
            thing.is_open = False
            self.at_risk[thing.first_bin : thing.age_bin, thing.row] -= 1
            self.at_risk[thing.age_bin, thing.row] -= 0.5

    def returned(self, thing: Followed, now: float) -> None:
        """`thing` was used again."""
        if thing.is_open:
            thing.is_open = False
            reached = self.bins.of(now - thing.born)
            self.at_risk[thing.age_bin, thing.row] += 0.5
            self.at_risk[thing.age_bin + 1 : reached + 1, thing.row] += 1
            self.returns[reached, thing.row] += 1

    def advance(self, now: float) -> None:
        """Let everything that is followed grow older."""
        moves = 0
        ends = self.bins.ends
        for number, queue in enumerate(self._queues):
            end = ends[number]
            while queue and moves < MAX_MOVES and (not queue[0].is_open or now - queue[0].born >= end):
                self._move(queue.popleft(), number + 1)
                moves += 1

    def _move(self, thing: Followed, age_bin: int) -> None:
        if thing.is_open:
            self.at_risk[thing.age_bin, thing.row] += 0.5
        if thing.is_open and age_bin < NUM_BINS - 1:
            thing.age_bin = age_bin
            self.at_risk[age_bin, thing.row] += 0.5
            self._queues[age_bin].append(thing)
        else:
            thing.is_open = False
            self._num_followed -= 1
