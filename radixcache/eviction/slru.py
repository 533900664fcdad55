"""Segmented LRU: one-time scans cannot push out what was used again."""

from collections.abc import Callable, Iterator
from typing import Final

from radixcache.eviction.base import EvictionPolicy, Rank, Use
from radixcache.eviction.share import CappedShare
from radixcache.node import Node

PROTECTED_SHARE: Final = 0.8
IDLE_TURNOVERS: Final = 8


class SLRU(EvictionPolicy):
    """Leaves used once (probationary) go before leaves used again (protected); LRU within each.

    The protected segment holds at most `PROTECTED_SHARE` of the pool; past it, its least recently used
    members fall back to the young end of the probationary segment. So does a member that was not used while
    the pool's worth of pages was inserted `IDLE_TURNOVERS` times: what was popular once leaves.

    Source:
        Karedla, Love, Wherry, "Caching strategies to improve disk system performance" (1994); here over
        paths: what is protected is closed towards the root.
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self._protected = CappedShare(int(num_pages * PROTECTED_SHARE), lowest_rank=(0, 0))
        self._inserted = 0

    def bind(self, reorder: Callable[[Node], None]) -> None:
        """Keep `reorder` for members that fall back."""
        self._reorder = reorder

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """A new leaf is probationary; time goes on by its pages."""
        super().insert(node, use, continued=continued)
        self._inserted += node.num_pages
        self._demote(self._protected.below((self._inserted - IDLE_TURNOVERS * self.num_pages, 0)))

    def touch(self, node: Node, use: Use) -> None:
        """A second use protects the path."""
        super().touch(node, use)
        self._protected.add(node, (self._inserted, node.stamp))
        self._demote(self._protected.overflow())

    def _demote(self, members: Iterator[Node]) -> None:
        for node in members:
            node.stamp = self.tick()
            self._reorder(node)

    def split(self, upper: Node, lower: Node) -> None:
        """Both halves are of one segment."""
        self._protected.split(upper, lower)

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """Within one segment, as LRU."""
        return upper.stamp <= lower.stamp and (upper in self._protected) == (lower in self._protected)

    def merge(self, upper: Node, lower: Node) -> None:
        """One member less."""
        self._protected.merge(upper, lower)

    def trim(self, node: Node, num_pages: int) -> None:
        """The segment shrinks."""
        self._protected.trim(node, num_pages)

    def remove(self, node: Node) -> None:
        """The segment shrinks."""
        self._protected.discard(node)

    def rank(self, node: Node) -> Rank:
        """Segment, then recency."""
        return (node in self._protected, node.stamp)
