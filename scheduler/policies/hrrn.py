"""Highest response ratio next."""

from typing import Any

import numpy as np

from radixcache import PrefixCache
from scheduler.policies.base import ColumnPolicy, PolicyOptions
from scheduler.request import Request

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
        self._ratios = np.empty(0)
        super().__init__(cache, self._uncached, (np.float64, np.inf), (np.float64, 0.0), (np.float64, 1.0))

    def _uncached(self, match: Any, rows: Any) -> Any:
        return self._columns.own(_LENGTH)[rows] - match * self._page_size

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        assert request.submitted_at is not None
        self._add(request, request.submitted_at, len(request.prompt))

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        if not len(self):
            return None
        self._columns.follow()
        uncached = self._columns.keys
        if len(self._ratios) < len(uncached):
            self._ratios = np.empty(2 * len(uncached))
        ratios = self._ratios[: len(uncached)]  # fresh memory costs as much as the quotients
        np.subtract(now, self._columns.own(_SINCE), out=ratios)
        ratios += 1.0
        ratios /= uncached
        row = int(ratios.argmax())
        if uncached[row] == np.inf:  # all are held, or this time is before all of theirs
            ratios[uncached == np.inf] = -np.inf
            row = int(ratios.argmax())
        return None if uncached[row] == np.inf else self._request_in(row)
