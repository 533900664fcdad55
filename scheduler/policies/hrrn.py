"""Highest response ratio next."""

import numpy as np

from radixcache import PrefixCache
from scheduler.policies.base import ColumnPolicy, PolicyOptions
from scheduler.policies.ratios import HighestRatios, Lines
from scheduler.request import Request
from scheduler.waiting.columns import Keys
from scheduler.waiting.rows import Array

_SINCE, _LENGTH = range(2)


class HRRN(ColumnPolicy):
    """The request with the highest (time waited + 1) / (tokens to compute).

    Short work and much of it cached comes soon, and waiting raises everybody's ratio without bound.

    Complexity:
        `head`: see `HighestRatios` and `RequestColumns`.

    Source:
        Brinch Hansen, "Highest Response Ratio Next" (1971), over uncached tokens.
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._page_size = cache.config.page_size
        self._shortlist = HighestRatios(self._lines, lambda: self._columns.settle())
        own = (np.float64, 0.0), (np.float64, 1.0)
        super().__init__(
            cache, self._shortlist, Keys(self._uncached, self._all_uncached), (np.float64, np.inf), *own
        )

    def _uncached(self, request: Request, match: int) -> float:
        return float(request.prompt_len - match * self._page_size)

    def _all_uncached(self, matches: Array) -> Array:
        uncached: Array = self._columns.own(_LENGTH) - matches * self._page_size
        return uncached

    def _lines(self) -> Lines:
        return Lines(self._columns.numbers, self._columns.own(_SINCE), self._columns.keys)

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        assert request.submitted_at is not None
        self._add(request, request.submitted_at, len(request.prompt))

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        if not len(self):
            return None
        self._columns.follow()
        number = self._shortlist.first(now)
        return None if number is None else self.forest.numbered(number)
