"""Least frequently used, with ageing."""

import math

from radixcache.eviction.base import EvictionPolicy, Rank, Use
from radixcache.node import Node

_NEVER = -math.inf


class LFU(EvictionPolicy):
    """Evicts the leaf with the smallest count of uses, where a use halves in weight at every turnover.

    Time is counted in pages inserted; one turnover is as many as the pool has. A use at time t weighs
    2^(t / turnover), so that ranks stand still between uses: the logarithm of the sum is the rank, and no
    leaf needs to be looked at because time went by. A prefix used n times leaves at most
    about log2(n) turnovers after the last use.

    `stamp` is the time of the last use (0: none), `state` the rank of all earlier ones (`None`: none). The
    last use is kept apart so that a sequence which publishes chunk by chunk counts once, at its deepest node.
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self._inserted = 1

    def _weight(self, stamp: int) -> float:
        return stamp / self.num_pages if stamp else _NEVER

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """One use; a chunk that continues its parent takes the parent's last use along."""
        self._inserted += node.num_pages
        node.stamp = self._inserted
        if continued and node.parent is not None:
            node.parent.stamp = 0

    def touch(self, node: Node, use: Use) -> None:
        """One use more."""
        node.state = _log_add(node.state, self._weight(node.stamp))
        node.stamp = self._inserted

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """Only where no use ended at `upper`: otherwise it outlives its child."""
        return not upper.stamp and upper.state is None

    def inherit(self, parent: Node, child: Node) -> None:
        """Every use of the child was one of the parent."""
        parent.state = _log_add(parent.state, self.rank(child))

    def rank(self, node: Node) -> Rank:
        """log2 of the summed weights."""
        total = _log_add(node.state, self._weight(node.stamp))
        return _NEVER if total is None else total


def _log_add(left: float | None, right: float) -> float | None:
    """log2(2^left + 2^right), where `None` and minus infinity stand for nothing."""
    if right == _NEVER:
        return left
    if left is None:
        return right
    high, low = (left, right) if left > right else (right, left)
    return high + math.log2(1.0 + 2.0 ** (low - high))
