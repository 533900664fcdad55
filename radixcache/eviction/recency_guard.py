"""Recency as a fallback: what LRU would have found in the same traffic, and when to do as it does."""

from collections import OrderedDict
from typing import Final, TypeAlias

from radixcache.node import Node

WINDOW: Final = 8
"""Turnovers over which finds are weighed up."""

TOLERANCE: Final = 0.02
"""Share of a turnover by which a policy may fall behind: a quarter of a point of hit rate over the window."""

FIRST_PAUSE: Final = 2
MAX_PAUSE: Final = 256
"""Turnovers of recency after a policy fell behind: at first, and at most."""

MIN_GHOSTS: Final = 4096
PAGES_PER_GHOST: Final = 8

GhostKey: TypeAlias = tuple[bytes, int, bytes]
"""Namespace, depth and first page of what was evicted."""


def ghost_key(node: Node, first: int = 0) -> GhostKey:
    """Where the pages of `node` from `first` on would be missing."""
    page_bytes = len(node.edge) // (node.num_pages + node.slack)
    return node.root.key, node.start + first, node.edge[first * page_bytes : (first + 1) * page_bytes]


class RecencyGuard:
    """Weighs what a policy finds against what LRU would, and says when to follow recency instead.

    Time is counted in pages that requests asked for; a turnover is as many as the pool has. LRU is known by
    its books alone: how many pages were used last at each time, as far back as they fit into the pool. Nodes
    carry the time of their last use as `stamp`; what the policy evicts leaves a ghost with its own.

    A policy that fell behind by `TOLERANCE` follows recency for `FIRST_PAUSE` turnovers, then tries again;
    every failure doubles the pause, getting ahead by as much ends that. So one that never does better loses
    little at first, and less and less.

    Args:
        num_pages: Pages in the pool.

    Attributes:
        now: Pages asked for so far.
        follows_recency: Whether to.

    Complexity:
        `used`: O(edges on the path). The others: amortised O(1). Memory O(pages of the pool) at worst.
    """

    def __init__(self, num_pages: int) -> None:
        self.now = 0
        self.follows_recency = False
        self._num_pages = num_pages
        self._kept: OrderedDict[int, int] = OrderedDict()
        self._num_kept = 0
        self._ghosts: OrderedDict[GhostKey, tuple[int, int]] = OrderedDict()
        """Last use of a run of pages that the policy let go, and where it ended."""
        self._max_ghosts = max(MIN_GHOSTS, num_pages // PAGES_PER_GHOST)
        self._trimmed: tuple[Node, GhostKey] | None = None
        self._lead = 0
        self._turnover_ends = num_pages
        self._pause = FIRST_PAUSE
        self._num_left = 0

    def touched(self, node: Node) -> bool:
        """A request found the path to `node`. Returns: whether `follows_recency` changed."""
        self.now += node.end
        total = 0
        at: Node | None = node
        while at is not None and at.parent is not None:
            held = self._forget(at.stamp, at.num_pages)
            self._lead += at.num_pages - held
            total += at.num_pages
            at.stamp = self.now
            at = at.parent
        self._keep(total)
        return self._decide()

    def inserted(self, node: Node) -> bool:
        """A request brought the pages of `node`. Returns: as `touched`."""
        self.now += node.num_pages
        node.stamp = self.now
        at = node.start
        while at < node.end:
            stamp, stop = self._ghosts.pop(ghost_key(node, at - node.start), (0, 0))
            if not stop:
                break
            stop = min(stop, node.end)
            self._lead -= self._forget(stamp, stop - at)
            at = stop
        self._keep(node.num_pages)
        return self._decide()

    def split(self, upper: Node, lower: Node) -> None:
        """`upper` took the head of `lower`'s edge."""
        upper.stamp = lower.stamp

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`."""
        if upper.stamp != lower.stamp and lower.stamp in self._kept:
            self._kept[lower.stamp] += self._forget(upper.stamp, upper.num_pages, keep=True)

    def trimmed(self, node: Node, num_pages: int) -> None:
        """The policy let the last `num_pages` pages of `node` go."""
        stop = node.end
        if self._trimmed is not None and self._trimmed[0] is node:
            stamp, before = self._ghosts.pop(self._trimmed[1], (0, 0))
            if stamp == node.stamp:
                stop = before
        key = ghost_key(node, node.num_pages - num_pages)
        self._trimmed = node, key
        self._remember(key, node.stamp, stop)

    def removed(self, node: Node, key: GhostKey) -> None:
        """`node` leaves the tree; `key` is its `ghost_key`."""
        if not node.root.retired:
            self._remember(key, node.stamp, node.end)

    def _remember(self, key: GhostKey, stamp: int, stop: int) -> None:
        if stamp in self._kept:
            self._ghosts[key] = stamp, stop
            if len(self._ghosts) > self._max_ghosts:
                self._ghosts.popitem(last=False)

    def _forget(self, stamp: int, num_pages: int, *, keep: bool = False) -> int:
        """Take pages from those that LRU keeps since `stamp`. Returns: how many of them it did keep."""
        kept = self._kept.get(stamp, 0)
        if kept <= num_pages:
            self._kept.pop(stamp, None)
        else:
            self._kept[stamp] = kept - num_pages
        num_held = min(kept, num_pages)
        if not keep:
            self._num_kept -= num_held
        return num_held

    def _keep(self, num_pages: int) -> None:
        self._kept[self.now] = num_pages
        self._num_kept += num_pages
        while self._num_kept > self._num_pages:
            stamp, kept = next(iter(self._kept.items()))
            self._forget(stamp, min(kept, self._num_kept - self._num_pages))

    def _decide(self) -> bool:
        limit = TOLERANCE * self._num_pages
        while self.now >= self._turnover_ends:
            self._turnover_ends += self._num_pages
            self._lead -= self._lead // WINDOW
            self._num_left -= 1
        if self.follows_recency:
            if self._num_left > 0:
                return False
            self.follows_recency = False
            self._lead = 0
            return True
        if self._lead > limit:
            self._pause = FIRST_PAUSE
        if self._lead >= -limit:
            return False
        self.follows_recency = True
        self._num_left = self._pause
        self._pause = min(MAX_PAUSE, 2 * self._pause)
        return True
