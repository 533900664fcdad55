"""First come, first served."""

from radixcache import PrefixCache
from scheduler.policies.base import PointPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.points import HeapedPoints, by_number


class FCFS(PointPolicy):
    """The oldest request that is not held."""

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._points = HeapedPoints(by_number)
        super().__init__(cache, self._points)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`. O(1)."""
        return self._request_at(self._points.first())
