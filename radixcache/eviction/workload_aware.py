"""Evicts the page with the smallest chance of being used in the next turnover, by class of turn and age."""

from typing import Any, Final

import numpy as np

from radixcache.eviction.survival import NUM_BINS
from radixcache.eviction.visits import Kind, Visit, VisitPolicy

PSEUDO_COUNT: Final = 8.0
FIRST_FIT: Final = 64
FIT_EVERY: Final = 128
MAX_TURNS: Final = 8
MAX_HAZARD: Final = 0.9


class WorkloadAware(VisitPolicy):
    """Ranks a page by P(reuse within one turnover of the pool | class of turn, age), learned online.

    Classes are the kind of visit and its turn in the conversation. A class of which little was seen is drawn
    towards all others together. Until something was learned it is LRU, and among equals ever after.

    Source:
        Wang et al., "KVCache cache in the wild" (USENIX ATC 2025): request categories, a fitted reuse
        distribution for each, the smallest probability within a window first. Different here: distributions
        are counted, not taken to be exponential; turns are found in the tree instead of being told; ages
        are in turnovers; returns to evicted pages count.

    Complexity:
        Eviction O(classes + log n), at most 17 classes. A refit each `FIT_EVERY` visits.
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self._chances: dict[int, list[float]] = {}
        self._num_visits = 0

    def describe(self, visit: Visit) -> int:
        """Class of a visit."""
        turns = min(visit.turns, MAX_TURNS) if visit.kind in (Kind.NEXT, Kind.SHARED) else 0
        visit.key = row = self.table.row((visit.kind, turns))
        return row

    def worth(self, key: Any, age: float) -> tuple[float, float]:
        """Chance of reuse within the next turnover."""
        age_bin = self.bins.of(age)
        chances = self._chances.get(key[1])
        return 0.0 if chances is None else chances[age_bin], self.bins.ends[age_bin]

    def relearn(self) -> None:
        """Refit now and then."""
        self._num_visits += 1
        if self._num_visits % FIT_EVERY == 0 or self._num_visits == FIRST_FIT:
            self._fit()
            self.version += 1

    def _fit(self) -> None:
        at_risk, returns = np.maximum(self.table.at_risk, 0.0), self.table.returns
        everybody = np.minimum(MAX_HAZARD, returns.sum(axis=1) / (at_risk.sum(axis=1) + 1))[:, None]
        risk = (returns.sum(axis=0) + PSEUDO_COUNT) / ((at_risk * everybody).sum(axis=0) + PSEUDO_COUNT)
        prior = np.minimum(MAX_HAZARD, risk * everybody)
        hazards = (returns + PSEUDO_COUNT * prior) / (at_risk + PSEUDO_COUNT)
        self._chances = {
            row: self._within_window(hazards[:, row].tolist()) for row in self.table.rows.values()
        }

    def _within_window(self, hazards: list[float]) -> list[float]:
        """P(reuse within a turnover) from the start of each age bin."""
        chances = []
        for start in range(NUM_BINS):
            end, alive = self.bins.edges[start] + self.num_pages, 1.0
            for age_bin in range(start, NUM_BINS):
                low, high = self.bins.edges[age_bin], self.bins.ends[age_bin]
                if low >= end:
                    break
                share = min(1.0, (end - low) / (high - low))
                alive *= 1.0 - share * hazards[age_bin]
            chances.append(1.0 - alive)
        return chances
