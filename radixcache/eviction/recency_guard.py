"""Recency as a fallback: what LRU would have found in the same traffic, and when to do as it does."""

from typing import Final

from radixcache.eviction.ghost_runs import GhostKey, GhostRuns, ghost_key
from radixcache.eviction.lru_books import LRUBooks
from radixcache.eviction.trust import Trust
from radixcache.node import Node

MIN_GHOSTS: Final = 4096
PAGES_PER_GHOST: Final = 8


class RecencyGuard:
    """Tells `Trust` what a policy finds and what LRU would, page for page.

    Time is counted in pages that requests used. Nodes carry the time of their last use as `stamp`, by which
    `LRUBooks` know what LRU would keep; what the policy lets go earlier leaves a ghost with its own.

    Args:
        num_pages: Pages in the pool.

    Attributes:
        now: Pages used so far.
        trust: What came of following the policy.

    Complexity:
        `touched`, `inserted`: O(edges on the path). The others: amortised O(1). Memory: at most one record a
        request whose pages LRU would keep, and the tokens of the ghosts.
    """

    def __init__(self, num_pages: int) -> None:
        self.now = 0
        self.trust = Trust(num_pages)
        self._books = LRUBooks(num_pages)
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
        self.trust.settled(self._books.keep(self.now, node.end, is_served=False))
        return self.trust.used(node.end, node.end, held)

    def _refresh(self, node: Node | None) -> int:
        """The path to `node` is used now. Returns: how many of its pages LRU did keep."""
        books, trust, held = self._books, self.trust, 0
        while node is not None and node.parent is not None:
            num_kept, change = books.use_again(node.stamp, node.num_pages)
            trust.settled(change)
            held += num_kept
            node.stamp = self.now
            node = node.parent
        return held

    def inserted(self, node: Node) -> bool:
        """A request brought the pages of `node`. Returns: as `touched`."""
        books = self._books
        self.now += node.num_pages
        node.stamp = self.now
        books.num_cached += node.num_pages
        self._refresh(node.parent)
        at, held = node.start, 0
        while at < node.end:
            stamp, num_pages = self._ghosts.take(node, at)
            if not num_pages:
                break
            num_kept, change = books.use_again(stamp, num_pages, were_cached=False)
            self.trust.settled(change)
            held += num_kept
            at += num_pages
        self.trust.settled(books.keep(self.now, node.end, is_served=True))
        return self.trust.used(node.num_pages, 0, held)

    def split(self, upper: Node, lower: Node) -> None:
        """`upper` took the head of `lower`'s edge."""
        upper.stamp = lower.stamp

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`."""
        self.trust.settled(self._books.move(upper.stamp, upper.num_pages, lower.stamp))

    def quota(self, node: Node) -> int:
        """Pages that the policy may let go of `node` before it is to ask again, at least 1."""
        if self.trust.follows_recency or node.stamp not in self._books:
            return node.num_pages
        return max(1, int(min(node.num_pages, self.trust.allowance())))

    def trimmed(self, node: Node, num_pages: int) -> bool:
        """The policy lets the last `num_pages` pages of `node` go. Returns: as `touched`."""
        return self._let_go(node, None, num_pages)

    def removed(self, node: Node, key: GhostKey) -> bool:
        """`node` leaves the tree; `key` is its `ghost_key`. Returns: as `touched`."""
        if node.root.retired:
            self.trust.settled(self._books.drop(node.stamp, node.num_pages))
            return False
        return self._let_go(node, key, node.num_pages)

    def _let_go(self, node: Node, key: GhostKey | None, num_pages: int) -> bool:
        if node.stamp in self._books:
            self._ghosts.add(node, key or ghost_key(node, node.num_pages - num_pages), self._books)
        return self.trust.settled(self._books.let_go(node.stamp, num_pages))
