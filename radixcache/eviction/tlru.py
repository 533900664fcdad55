"""Tail-optimised LRU: pages that a conversation does not need for a fast answer go first."""

from typing import Final

from radixcache.eviction.base import EvictionPolicy, Rank, Use
from radixcache.node import Node

MEMORY: Final = 256
"""Requests over which the means run."""

SPENT_SHARE: Final = 1 / 256


class TLRU(EvictionPolicy):
    """Pages beyond what keeps a conversation's next turn within its latency budget go first; then LRU.

    A turn that brings q new pages to a conversation of h pages computes no more than a budget of x, where
    the first max(0, h + q - x) pages of it are cached. What lies behind these is spared at no loss in tail
    latency. Both parts are evicted by recency. h is the longest the conversation was, trimmed or not; q is
    the running mean of what requests add to a path of which at least half was there.

    It trades hit rate for latency by design (seen: up to half a point below LRU, without a budget of its
    own): it bounds the slowest answers and makes no attempt at a higher hit rate. Spared pages of a
    conversation that goes on are computed again at every turn. So without a budget of its own it spares
    no more once these come to `SPENT_SHARE` of all pages asked for, until they are fewer again.

    `state` is (pages from the root that a path needs, its length when it was longest).

    Args:
        num_pages: Pages in the pool.
        budget_pages: Pages that a request may compute within its latency target. `None`: two turns' worth,
            2 q, within what may be spent.

    Source:
        Zhang et al., "Tail-optimized caching for LLM inference" (NeurIPS 2025). Here page-exact, and by the
        depth that was reached instead of the length that is cached.

    Complexity:
        As LRU.
    """

    def __init__(self, num_pages: int, budget_pages: float | None = None) -> None:
        super().__init__(num_pages)
        self._budget = budget_pages
        self._added = _RunningMean()
        self._asked = _RunningMean()
        self._spent = _RunningMean()

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """A path grew."""
        super().insert(node, use, continued=continued)
        assert node.parent is not None
        before = 0 if node.parent.state is None else node.parent.state[1]
        if 0 < node.end - before <= before:
            self._added.add(node.end - before, more=continued)
        again = max(0, min(before, node.end) - node.start)
        self._spent.add(again, more=continued)
        self._asked.add(node.num_pages if continued else node.end, more=continued)
        node.state = self._needed(node.end), node.end

    def touch(self, node: Node, use: Use) -> None:
        """A path was used to its end."""
        super().touch(node, use)
        longest = node.end if node.state is None else max(node.end, node.state[1])
        if 2 * node.end < longest:
            longest = node.end
        node.state = self._needed(longest), longest

    def _needed(self, longest: int) -> int:
        added = self._added.value
        if self._budget is not None:
            return max(0, round(longest + added - self._budget))
        return longest if self._spent.value > SPENT_SHARE * self._asked.value else round(longest - added)

    def split(self, upper: Node, lower: Node) -> None:
        """Both halves are of one path."""
        upper.state = lower.state

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """As LRU: what the lower half knows is the later."""
        return upper.stamp <= lower.stamp

    def inherit(self, parent: Node, child: Node) -> None:
        """The path that was used last says what is needed."""
        if child.stamp > parent.stamp:
            parent.stamp, parent.state = child.stamp, child.state

    def rank(self, node: Node) -> Rank:
        """What is not needed first, then recency."""
        return node.end <= node.state[0], node.stamp

    def quota(self, node: Node) -> int:
        """What is not needed goes without what is."""
        needed: int = node.state[0]
        return node.num_pages if node.end <= needed else node.end - max(node.start, needed)


class _RunningMean:
    """Mean of the last requests; a request may report in parts."""

    def __init__(self) -> None:
        self.value = 0.0
        self._weight = 1.0
        self._num_seen = 0

    def add(self, amount: float, *, more: bool) -> None:
        """One request more, or more of the last one."""
        if more:
            self.value += self._weight * amount
        else:
            self._num_seen += 1
            self._weight = 1 / min(self._num_seen, MEMORY)
            self.value += self._weight * (amount - self.value)
