"""Whether a policy has earned it to be followed: a matter of counts, without nodes or keys."""

from math import sqrt
from typing import Final

BUDGET: Final = 0.005
"""Share of all pages asked for that may be lost against recency in expectation: half of the point of hit rate
that is promised, the other half is for what the expectation misses."""

WINDOW: Final = 8
"""Turnovers over which finds are weighed up."""

TOLERANCE: Final = 0.02
"""Share of a turnover by which a policy may fall behind: a quarter of a point of hit rate over the window."""

DEVIATIONS: Final = 2.0
"""Standard deviations by which it may, where single requests weigh more than that."""

FIRST_PAUSE: Final = 2
MAX_PAUSE: Final = 256
"""Turnovers of recency after a policy fell behind: at first, and at most."""


class Trust:
    """Says when to follow recency instead of a policy.

    Pages that the policy let go and LRU would still hold are exposed: each may become a loss, until LRU would
    have let it go too. For the first `WINDOW` turnovers LRU it is, while the policy learns. Then two rules:

    - *Credit.* What was lost so far, less what was gained, and what is to be expected of the exposed pages
      stay within `BUDGET` of all pages asked for. The expectation is their number times the share that
      was lost of those before; that share starts from LRU's own hit rate, as if a turnover's worth had been
      seen, and this in turn from 1. As much again is for chance: where it does not cover one request of
      common size, the credit is less by what is missing. So a policy deviates as far as its
      evidence reaches, and one that gains may go on as it likes.
    - *Pause.* A policy that fell behind by `TOLERANCE` and by `DEVIATIONS` of what chance brings follows
      recency for `FIRST_PAUSE` turnovers, then tries again; every failure doubles the pause, getting
      ahead by as much ends that. So one that never does better loses less and less.

    Time is counted in pages that requests asked for; a turnover is as many as the pool has.

    Args:
        num_pages: Pages in the pool.

    Attributes:
        follows_recency: Whether to.

    Complexity:
        Each method O(1).
    """

    def __init__(self, num_pages: int) -> None:
        self.follows_recency = True
        self._num_pages = num_pages
        self._asked = self._used = 0
        self._squares = 0
        self._found_by_lru = 0
        self._account = 0
        """Finds of the policy less those of LRU."""
        self._exposed = 0
        self._lost = 0.0
        self._harmless = 0.0
        self._risk = 1.0
        self._lead = 0.0
        self._spread = 0.0
        """Sum of squares of what single requests added to the lead."""
        self._turnover_ends = num_pages
        self._pause = FIRST_PAUSE
        self._num_left = 0
        self._is_spent = True

    def admitted(self, num_pages: int) -> None:
        """A prompt has that many pages, found or not."""
        self._asked += num_pages

    def used(self, num_pages: int, found: int, found_by_lru: int) -> bool:
        """A request used pages. Returns: whether `follows_recency` changed.

        Args:
            num_pages: How many.
            found: How many the policy had kept.
            found_by_lru: How many LRU would have.
        """
        self._used += num_pages
        self._squares += num_pages * num_pages
        self._found_by_lru += found_by_lru
        gain = found - found_by_lru
        if gain:
            self._account += gain
            self._lead += gain
            self._spread += gain * gain
        if self._used >= self._turnover_ends:
            self._turn_over()
        return self._decide()

    def exposed(self, num_pages: int) -> bool:
        """The policy let pages go that LRU keeps so far. Returns: as `used`."""
        self._exposed += num_pages
        return self._decide()

    def ended(self, num_pages: int, *, lost: bool) -> None:
        """Exposed pages were asked for (`lost`), or LRU let them go as well."""
        self._exposed -= num_pages
        if lost:
            self._lost += num_pages
        else:
            self._harmless += num_pages

    def allowance(self) -> float:
        """Pages that may be exposed beyond those that are; negative where it was too many."""
        budget = BUDGET * self._asked
        one_request = self._squares / self._used if self._used else 0.0
        return (self._account + budget - max(0.0, one_request - budget)) / self._risk - self._exposed

    def _turn_over(self) -> None:
        while self._used >= self._turnover_ends:
            self._turnover_ends += self._num_pages
            self._lead -= self._lead / WINDOW
            self._spread -= self._spread / WINDOW
            self._lost -= self._lost / WINDOW
            self._harmless -= self._harmless / WINDOW
            if self._num_left:
                self._num_left -= 1
                if not self._num_left:
                    self._lead = self._spread = 0.0

    def _decide(self) -> bool:
        before = self.follows_recency
        size = self._num_pages
        base = (self._found_by_lru + size) / (self._used + size)
        self._risk = (self._lost + base * size) / (self._lost + self._harmless + size)
        allowance = self.allowance()
        if allowance <= 0 or self._used < WINDOW * size:
            self._is_spent = True
        elif allowance > self._exposed:
            self._is_spent = False
        self.follows_recency = self._is_pausing() or self._is_spent
        return self.follows_recency != before

    def _is_pausing(self) -> bool:
        if self._num_left:
            return True
        limit = max(TOLERANCE * self._num_pages, DEVIATIONS * sqrt(self._spread))
        if self._lead > limit:
            self._pause = FIRST_PAUSE
        if self._lead >= -limit:
            return False
        self._num_left = self._pause
        self._pause = min(MAX_PAUSE, 2 * self._pause)
        return True
