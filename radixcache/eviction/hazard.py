"""Evicts the page with the lowest attainable rate of hits, learned from who returned, and when."""

from typing import Any, Final

from radixcache.eviction.hazard_model import Cell, HazardModel
from radixcache.eviction.survival import BINS_PER_DOUBLING
from radixcache.eviction.tail_loss import TailLoss
from radixcache.eviction.visits import Kind, Visit, VisitPolicy

FIRST_FIT: Final = 64
FIT_EVERY: Final = 64
BINS_PER_GAP: Final = BINS_PER_DOUBLING


class Hazard(VisitPolicy):
    """Keeps the pages that hit most for the room and time they take.

    All pages of a path hit together, so a page is worth the rate at which its last visit can be expected to
    be continued: the index of `attainable_rates`. Its hazard is learned online, by

    - kind of visit and the gap before it (the shape over age): who came back soon comes back soon, and groups
      of one kind share what they show of ages relative to that gap;
    - turns so far, and pages by which the last one grew (relative risk): long conversations go on,
      large new material tends to be asked about once.

    What a continuation left behind is a class of its own, as are prefixes that several visits share. Pages
    at the end that continuations usually do not use go before the rest of their path.

    Until something was learned it is LRU, and among equals ever after.

    Source:
        The worth of a page is the hit density of Beckmann, Chen, Cidon, "LHD" (NSDI 2018), over ages and
        classes. Different here: the best attainable density (Gittins) instead of the one that the policy
        itself brought about; returns to what was evicted count; classes are what a prefix tree shows of
        conversations; a cell of which little was seen borrows from its neighbours; no sampling of victims.

    Complexity:
        Eviction O(classes + log n). Classes are groups (at most 51) at levels of risk (at most 33, some 5 as
        a rule), with and without tail, as far as there are leaves of them. A refit each `FIT_EVERY` visits.
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self._model = HazardModel(self.table)
        self._tail = TailLoss()
        self._num_visits = 0

    def describe(self, visit: Visit) -> int:
        """Cell of a visit; the level of its risk is taken once and for all."""
        gap = self.bins.of(visit.gap) // BINS_PER_GAP if visit.kind in (Kind.NEXT, Kind.SHARED) else 0
        group = (int(visit.kind), gap)
        turns = _steps(visit.turns) if visit.kind not in (Kind.REST, Kind.AGAIN) else 0
        row = self._model.row(Cell(group, turns, visit.grown.bit_length()))
        visit.key = (group, self._model.level(row))
        if visit.kind in (Kind.FIRST, Kind.NEXT):
            visit.tail = min(self._tail.num_pages, visit.depth // 2)
        return row

    def worth(self, key: Any, age: float) -> tuple[float, float]:
        """Attainable rate of hits of a page."""
        in_tail, (group, level) = key
        age_bin = self.bins.of(age)
        rate = self._model.rates(group, level)[age_bin]
        return rate * self._tail.kept if in_tail else rate, self.bins.ends[age_bin]

    def lost(self, num_pages: int) -> None:
        """Learn how much of an end is left behind."""
        self._tail.note(num_pages)

    def relearn(self) -> None:
        """Refit now and then."""
        self._num_visits += 1
        if self._num_visits % FIT_EVERY == 0 or self._num_visits == FIRST_FIT:
            self._model.refit()
            self.version += 1


def _steps(turns: int) -> int:
    """1, 2, 3, 4, then steps that grow with the number."""
    return turns if turns <= 4 else 2 + turns.bit_length()
