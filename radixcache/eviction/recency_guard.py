"""Recency as a fallback: what LRU would have found in the same traffic, and when to do as it does."""

from collections import OrderedDict
from typing import Final

from radixcache.eviction.ghost_runs import GhostKey, GhostRuns, ghost_key
from radixcache.eviction.trust import Trust
from radixcache.node import Node

MIN_GHOSTS: Final = 4096
PAGES_PER_GHOST: Final = 8


class RecencyGuard:
    """Keeps the books of LRU beside a policy, and tells `Trust` what both find.

    Time is counted in pages that requests used. LRU is known by its books alone: how many pages were used
    last at each time, as far back as they fit into the pool. Nodes carry the time of their last use as
    `stamp`; what the policy evicts leaves a ghost with its own. So LRU's finds are known to the page.

    Args:
        num_pages: Pages in the pool.

    Attributes:
        now: Pages used so far.
        trust: What came of following the policy.

    Complexity:
        `touched`, `inserted`: O(edges on the path). The others: amortised O(1). Memory: one record a request
        whose pages LRU would keep, and the tokens of the ghosts.
    """

    def __init__(self, num_pages: int) -> None:
        self.now = 0
        self.trust = Trust(num_pages)
        self._num_pages = num_pages
        self._kept: OrderedDict[int, list[int]] = OrderedDict()
        """Pages used last at a time that LRU keeps, and how many of them the policy let go (exposed)."""
        self._num_kept = 0
        self._ghosts = GhostRuns(max(MIN_GHOSTS, num_pages // PAGES_PER_GHOST))

    @property
    def follows_recency(self) -> bool:
        """Whether the last use alone decides at present."""
        return self.trust.follows_recency

    def admitted(self, num_pages: int) -> None:
        """A prompt has that many whole pages; finds are held against them."""
        self.trust.admitted(num_pages)

    def touched(self, node: Node) -> bool:
        """A request found the path to `node`. Returns: whether `follows_recency` changed."""
        self.now += node.end
        held = self._refresh(node)
        self._keep(node.end)
        return self.trust.used(node.end, node.end, held)

    def inserted(self, node: Node) -> bool:
        """A request brought the pages of `node`. Returns: as `touched`."""
        self.now += node.num_pages
        node.stamp = self.now
        self._refresh(node.parent)
        at, held = node.start, 0
        while at < node.end:
            stamp, num_pages = self._ghosts.take(node, at)
            if not num_pages:
                break
            held += self._lose(stamp, num_pages)
            at += num_pages
        self._keep(node.end)
        return self.trust.used(node.num_pages, 0, held)

    def _refresh(self, node: Node | None) -> int:
        """The path to `node` is used now. Returns: how many of its pages LRU did keep."""
        held = 0
        while node is not None and node.parent is not None:
            held += self._forget(node.stamp, node.num_pages)
            node.stamp = self.now
            node = node.parent
        return held

    def split(self, upper: Node, lower: Node) -> None:
        """`upper` took the head of `lower`'s edge."""
        upper.stamp = lower.stamp

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`."""
        below = self._kept.get(lower.stamp)
        if upper.stamp != lower.stamp and below is not None:
            moved = self._forget(upper.stamp, upper.num_pages)
            below[0] += moved
            self._num_kept += moved

    def quota(self, node: Node) -> int:
        """Pages that the policy may let go of `node` before it is to ask again, at least 1."""
        if self.trust.follows_recency or node.stamp not in self._kept:
            return node.num_pages
        return max(1, int(min(node.num_pages, self.trust.allowance())))

    def trimmed(self, node: Node, num_pages: int) -> bool:
        """The policy lets the last `num_pages` pages of `node` go. Returns: as `touched`."""
        return self._let_go(node, ghost_key(node, node.num_pages - num_pages), num_pages)

    def removed(self, node: Node, key: GhostKey) -> bool:
        """`node` leaves the tree; `key` is its `ghost_key`. Returns: as `touched`."""
        return not node.root.retired and self._let_go(node, key, node.num_pages)

    def _let_go(self, node: Node, key: GhostKey, num_pages: int) -> bool:
        kept = self._kept.get(node.stamp)
        if kept is None:
            return False
        self._ghosts.add(node, key, self._kept)
        exposed = min(num_pages, kept[0] - kept[1])
        kept[1] += exposed
        return self.trust.exposed(exposed)

    def _lose(self, stamp: int, num_pages: int) -> int:
        """Exposed pages were asked for. Returns: how many of them LRU did keep."""
        kept = self._kept.get(stamp)
        if kept is not None:
            lost = min(kept[1], num_pages)
            kept[1] -= lost
            self.trust.ended(lost, lost=True)
        return self._forget(stamp, num_pages)

    def _forget(self, stamp: int, num_pages: int) -> int:
        """Take pages from those that LRU keeps since `stamp`. Returns: how many of them it did keep."""
        kept = self._kept.get(stamp)
        if kept is None:
            return 0
        held = min(kept[0], num_pages)
        kept[0] -= held
        self._num_kept -= held
        if kept[1] > kept[0]:
            self.trust.ended(kept[1] - kept[0], lost=False)
            kept[1] = kept[0]
        if not kept[0]:
            del self._kept[stamp]
        return held

    def _keep(self, num_pages: int) -> None:
        """Pages are used now, and LRU lets the oldest go, the ends of paths first."""
        self._kept[self.now] = [num_pages, 0]
        self._num_kept += num_pages
        while self._num_kept > self._num_pages:
            stamp, kept = next(iter(self._kept.items()))
            gone = min(kept[0], self._num_kept - self._num_pages)
            harmless = min(kept[1], gone)
            if harmless:
                kept[1] -= harmless
                self.trust.ended(harmless, lost=False)
            self._forget(stamp, gone)
