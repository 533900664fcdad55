"""From counted returns to the worth of a page: risks of classes, shapes over age, attainable rates.

The hazard of a visit is the shape of its group over age, times the relative risk of its cell. Cells are finer
than groups; a cell of which little was seen takes the product of its turn's and its size's effects instead. A
group of which little was seen takes the shape of all, bent to its pace: who came back after some time tends
to do so after about as long again.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from radixcache.eviction.survival import BINS_PER_DOUBLING, NUM_BINS, AgeBins, Counts, SurvivalTable

PSEUDO_COUNT: Final = 8.0
"""Events that a prior guess weighs: the more general estimate counts as if that many had been seen."""

CELL_COUNT: Final = 20.0
"""The same for a cell, whose prior is the product of effects."""

PACE_COUNT: Final = 2.0
"""The same for an age relative to the gap before."""

LEVELS_PER_DOUBLING: Final = 4
MAX_LEVEL: Final = 16
MAX_HAZARD: Final = 0.9
SWEEPS: Final = 2

Codes: TypeAlias = npt.NDArray[np.intp]

Group: TypeAlias = tuple[int, int]
"""Kind of the visit, and how long the gap before it was."""


class Cell(NamedTuple):
    """The class of a visit."""

    group: Group
    turns: int
    size: int


@dataclass(slots=True)
class _Factor:
    """Numbers for the values of one factor, in order of appearance. A value is a kind with something else."""

    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    of_row: list[int] = field(default_factory=list)

    def add(self, value: tuple[int, int]) -> None:
        self.of_row.append(self.numbers.setdefault(value, len(self.numbers)))


class HazardModel:
    """Estimates for the cells of a table.

    Args:
        table: Counts, a row a cell.

    Complexity:
        `refit`: O(cells * NUM_BINS) in NumPy. `rates`: O(NUM_BINS), once for each group and level after a
        refit.
    """

    def __init__(self, table: SurvivalTable) -> None:
        self._table = table
        self._groups, self._turns, self._sizes = _Factor(), _Factor(), _Factor()
        self._turn_risk: Counts = np.ones(1)
        self._size_risk: Counts = np.ones(1)
        self._risk: Counts = np.ones(0)
        self._shape: Counts = np.zeros((NUM_BINS, 1))
        self._rates: dict[tuple[Group, int], list[float]] = {}
        self._num_groups = 0

    def row(self, cell: Cell) -> int:
        """The row of a cell in the table."""
        row = self._table.row(cell)
        if row == len(self._groups.of_row):
            self._groups.add(cell.group)
            self._turns.add((cell.group[0], cell.turns))
            self._sizes.add((cell.group[0], cell.size))
        return row

    def level(self, row: int) -> int:
        """Relative risk of a cell as of the last refit, in steps of a factor."""
        if row < len(self._risk):
            risk = float(self._risk[row])
        else:
            turn, size = self._turns.of_row[row], self._sizes.of_row[row]
            risk = float(self._turn_risk[turn]) if turn < len(self._turn_risk) else 1.0
            risk *= float(self._size_risk[size]) if size < len(self._size_risk) else 1.0
        return max(-MAX_LEVEL, min(MAX_LEVEL, round(LEVELS_PER_DOUBLING * math.log2(risk))))

    def refit(self) -> None:
        """Take in what was counted since."""
        rows = len(self._groups.of_row)
        at_risk = np.maximum(self._table.at_risk[:, :rows], 0.0)
        returns = self._table.returns[:, :rows]
        groups, turns, sizes = (
            np.array(factor.of_row, dtype=np.intp) for factor in (self._groups, self._turns, self._sizes)
        )
        self._shape = _shapes(at_risk, returns, groups, list(self._groups.numbers))
        seen = returns.sum(axis=0)
        expected = (at_risk * self._shape[:, groups]).sum(axis=0)
        turn_risk, size_risk = np.ones(len(self._turns.numbers)), np.ones(len(self._sizes.numbers))
        for _ in range(SWEEPS):
            turn_risk = _effect(turns, seen, expected * size_risk[sizes])
            size_risk = _effect(sizes, seen, expected * turn_risk[turns])
        prior = turn_risk[turns] * size_risk[sizes]
        self._turn_risk, self._size_risk = turn_risk, size_risk
        self._risk = (seen + CELL_COUNT * prior) / (expected + CELL_COUNT)
        self._num_groups = len(self._groups.numbers)
        self._rates = {}

    def rates(self, group: Group, level: int) -> list[float]:
        """Attainable rate of returns at each age bin, for a group at a level of risk."""
        rates = self._rates.get((group, level))
        if rates is None:
            number = min(self._groups.numbers.get(group, self._num_groups), self._num_groups)
            risk = 2.0 ** (level / LEVELS_PER_DOUBLING)
            hazards = [min(MAX_HAZARD, risk * hazard) for hazard in self._shape[:, number].tolist()]
            rates = attainable_rates(hazards, self._table.bins)
            self._rates[group, level] = rates
        return rates


def attainable_rates(hazards: list[float], bins: AgeBins) -> list[float]:
    """The best ratio of returns to time that waiting can reach, from the start of each age bin.

    Waiting from age a until a return, or until age b at the latest, brings F(a, b) returns in T(a, b) time in
    the mean; the rate is the maximum of F / T over all b > a. It is what a page is worth: where hazard falls
    with age it is the hazard itself; where a return becomes likely only later, it looks ahead to that.

    Source:
        Gittins, "Bandit processes and dynamic allocation indices", 1979. Found here as slopes of the
        concave hull of returns over time.

    Complexity:
        O(NUM_BINS).
    """
    time, returned, alive = [0.0], [0.0], 1.0
    for hazard, start, end in zip(hazards[:-1], bins.edges, bins.ends, strict=False):
        time.append(time[-1] + alive * (end - start) * (1 - hazard / 2))
        alive *= 1 - hazard
        returned.append(1 - alive)
    rates = [0.0] * len(hazards)
    hull = [len(hazards) - 1]
    for start in range(len(hazards) - 2, -1, -1):
        while len(hull) > 1 and _slope(time, returned, start, hull[-2]) >= _slope(
            time, returned, start, hull[-1]
        ):
            hull.pop()
        rates[start] = _slope(time, returned, start, hull[-1])
        hull.append(start)
    return rates


def _slope(time: list[float], returned: list[float], start: int, end: int) -> float:
    return (returned[end] - returned[start]) / (time[end] - time[start])


def _shapes(at_risk: Counts, returns: Counts, groups: Codes, keys: list[Group]) -> Counts:
    """Hazard of each group at each age, drawn towards that of all, which is the last column."""
    everybody = _of_all(at_risk.sum(axis=1), returns.sum(axis=1))[:, None]
    exposed, events = (_by_group(counts, groups, len(keys)) for counts in (at_risk, returns))
    offsets = _offsets(keys)
    shape = everybody
    risk = _ratio(events.sum(axis=0), (exposed * everybody).sum(axis=0))
    for _ in range(SWEEPS):
        shape = np.minimum(MAX_HAZARD, everybody * _paces(offsets, events, exposed * risk * everybody))
        risk = _ratio(events.sum(axis=0), (exposed * shape).sum(axis=0))
    prior = np.minimum(MAX_HAZARD, risk * shape)
    return np.hstack([(events + PSEUDO_COUNT * prior) / (exposed + PSEUDO_COUNT), everybody])


def _offsets(keys: list[Group]) -> Codes:
    """A number for each kind and distance of an age from the gap before, `[NUM_BINS, groups]`; 0: no gap."""
    kind, gap = (np.array(column, dtype=np.intp) for column in zip(*keys, strict=True))
    age_bin = np.arange(NUM_BINS)[:, None]
    codes: Codes = np.where(gap > 0, (2 * kind + 1) * NUM_BINS + age_bin - BINS_PER_DOUBLING * gap, 0)
    return codes


def _paces(offsets: Codes, events: Counts, expected: Counts) -> Counts:
    """Relative risk at an age for its distance from the gap before, of all groups of a kind together."""
    seen, due = (np.bincount(offsets.ravel(), weights=counts.ravel()) for counts in (events, expected))
    ratio = (seen + PACE_COUNT) / (due + PACE_COUNT)
    ratio[0] = 1.0
    paces: Counts = ratio[offsets]
    return paces


def _of_all(at_risk: Counts, returns: Counts) -> Counts:
    """Hazard at each age, drawn towards that at the age before: the oldest are seen last."""
    hazards: Counts = np.zeros(len(at_risk))
    before = 0.0
    for age_bin, (exposed, seen) in enumerate(zip(at_risk.tolist(), returns.tolist(), strict=True)):
        before = hazards[age_bin] = min(MAX_HAZARD, (seen + PSEUDO_COUNT * before) / (exposed + PSEUDO_COUNT))
    return hazards


def _by_group(counts: Counts, groups: Codes, num_groups: int) -> Counts:
    """Columns of `counts` added up by group, `[NUM_BINS, num_groups]`."""
    return np.stack([np.bincount(groups, weights=row, minlength=num_groups) for row in counts])


def _effect(codes: Codes, seen: Counts, expected: Counts) -> Counts:
    return _ratio(np.bincount(codes, weights=seen), np.bincount(codes, weights=expected))


def _ratio(seen: npt.NDArray[Any], expected: npt.NDArray[Any]) -> Counts:
    """Relative risk, drawn towards 1."""
    ratio: Counts = (seen + PSEUDO_COUNT) / (expected + PSEUDO_COUNT)
    return ratio
