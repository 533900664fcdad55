"""Longest prefix match first."""

from typing import ClassVar

from radixcache import PrefixCache
from scheduler.policies.base import PointPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.points import HeapedPoints, by_match


class LPM(PointPolicy):
    """The request with the most cached tokens, the oldest among equals; exact at any queue length.

    Source:
        Zheng et al., "SGLang" (2023), section on cache-aware scheduling. sglang 0.5.23 falls back to arrival
        order above 128 waiting requests; here the order is followed incrementally instead.
    """

    is_bounded: ClassVar[bool] = False

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._points = HeapedPoints(by_match)
        super().__init__(cache, self._points)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`. O(1)."""
        return self._request_at(self._points.first())
