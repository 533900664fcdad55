"""Highest response ratio next."""

import numpy as np

from radixcache import PrefixCache
from scheduler.policies.base import ColumnPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.columns import Column

_SINCE, _LENGTH = range(2)


class HRRN(ColumnPolicy):
    """The request with the highest (time waited + 1) / (tokens to compute).

    Short work and much of it cached comes soon, and waiting raises everybody's ratio without bound.

    Complexity:
        `head`: O(waiting) in NumPy, some 20 µs for 10,000; see `RequestColumns`.

    Source:
        Brinch Hansen, "Highest Response Ratio Next" (1971), over uncached tokens.
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._page_size = cache.config.page_size
        super().__init__(cache, (np.float64, 0.0), (np.float64, 1.0))

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        assert request.submitted_at is not None
        self._add(request, request.submitted_at, len(request.prompt))

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        columns = self._columns
        if not len(columns):
            return None
        columns.follow()
        ratios: Column = now - columns.own(_SINCE) + 1.0
        ratios /= columns.own(_LENGTH) - columns.matches * self._page_size
        ratios += columns.bars
        return self._request(columns.first_highest(ratios))
