"""Depth first, heaviest subtree first."""

from typing import ClassVar

from radixcache import PrefixCache
from scheduler.policies.base import PointPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting import HEAVIEST
from scheduler.waiting.node import Rank, WaitNode
from scheduler.waiting.points import HeapedPoints


class DFS(PointPolicy):
    """Depth-first order over the prompts that wait, for batches that are known as a whole.

    Goes on below the deepest prefix that is cached and has requests left, into the subtree in which most
    wait; of prefixes as deep, below the one that fewest still wait for, so that what was begun is finished.
    In a pool that holds the longest prompt this visits the prefix tree depth first, so every shared
    page is computed once, whatever the eviction policy.

    Source:
        Zheng et al., "SGLang" (2023), theorem on depth-first order; longest match first is such an order, and
        leaves open which subtree comes first.
    """

    is_bounded: ClassVar[bool] = False

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._points = HeapedPoints(_deepest_lightest)
        super().__init__(cache, self._points, HEAVIEST)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`. O(1)."""
        return self._request_at(self._points.first())


def _deepest_lightest(node: WaitNode) -> Rank:
    return (-node.match, node.weight, node.best)
