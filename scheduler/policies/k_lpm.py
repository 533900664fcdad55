"""Once in k admissions the oldest, otherwise the longest prefix match."""

from radixcache import PrefixCache
from scheduler.policies.base import PointPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.points import HeapedPoints, PairedPoints, by_match, by_number


class KLPM(PointPolicy):
    """The oldest request, then k - 1 longest matches, and so on.

    A request that finds n older ones waits for at most k * (n + 1) admissions.

    Source:
        Dexter et al., "LLM Query Scheduling with Prefix Reuse and Latency Constraints" (2025).
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._k = options.k
        self._num_admitted = 0
        self._by_match = HeapedPoints(by_match)
        self._by_number = HeapedPoints(by_number)
        super().__init__(cache, PairedPoints(self._by_match, self._by_number))

    @property
    def is_as_new(self) -> bool:
        """See `ForestPolicy`."""
        return self._num_admitted % self._k == 0

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`. O(1)."""
        points = self._by_match if self._num_admitted % self._k else self._by_number
        return self._request_at(points.first())

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`: one more admission."""
        super().admitted(request, extend_len)
        self._num_admitted += 1
