"""Greedy dual: uses times the cost of computing a page again, on a clock that evictions move."""

import math
from typing import Final

from radixcache.eviction.base import EvictionPolicy, Rank, Use
from radixcache.eviction.ghost_runs import ghost_key
from radixcache.eviction.order import FallbackOrder
from radixcache.eviction.recency_guard import RecencyGuard
from radixcache.node import Node
from radixcache.tokens import TOKEN_BYTES

HALF_ATTENTION_LEN: Final = 32768
"""Depth at which attention costs as much as everything else: about parameters / (2 * layers * width), and 30
thousand tokens for a model of 8 billion parameters."""

COST_STEPS: Final = 4


class GDSF(EvictionPolicy):
    """Evicts the page with the smallest clock + uses * cost, where the clock is the last victim's value.

    Pages are of one size, so cost / size is the time to compute a page again, which grows with its depth as
    attention looks back further. Costs are taken in steps of 1 / `COST_STEPS`, so that recency decides
    between paths of about the same depth. Uses weigh 1 + log2(n): with their plain number a prefix used
    a thousand times would stay for a thousand turnovers after its last use.

    Depth says nothing of who returns, and counts age slowly: where room is not scarce this finds less than
    recency. So recency decides for a while where it would have found more (`RecencyGuard`).

    `state` is (uses so far, clock at the last one).

    Source:
        Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy" (1998);
        over prefixes: Jin et al., "RAGCache" (2024).

    Complexity:
        As LRU; a touch O(edges on the path).
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self._inflation = 0.0
        self._guard = RecencyGuard(num_pages)

    @property
    def follows_recency(self) -> bool:
        """Whether the last use alone decides at present."""
        return self._guard.follows_recency

    def make_order(self) -> FallbackOrder:
        """An order by value and by last use."""
        return FallbackOrder(self)

    def admit(self, num_pages: int) -> None:
        """A request more to hold finds against."""
        self._guard.admitted(num_pages)

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """One use; a chunk that continues its parent takes the parent's last use along."""
        self._guard.inserted(node)
        node.state = (1, self._inflation)
        parent = node.parent
        if continued and parent is not None and parent.state is not None:
            parent.state = (parent.state[0] - 1, parent.state[1])

    def touch(self, node: Node, use: Use) -> None:
        """One use more."""
        self._guard.touched(node)
        node.state = (_uses(node) + 1, self._inflation)

    def split(self, upper: Node, lower: Node) -> None:
        """The upper half will inherit the lower one's uses."""
        upper.state = (0, 0.0)
        self._guard.split(upper, lower)

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """Only where no use ended at `upper`: otherwise it outlives its child."""
        return not _uses(upper)

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`."""
        self._guard.merge(upper, lower)

    def inherit(self, parent: Node, child: Node) -> None:
        """Every use of the child was one of the parent."""
        uses, clock = parent.state
        parent.state = (uses + child.state[0], max(clock, child.state[1]))

    def remove(self, node: Node) -> None:
        """The clock moves to the victim's value."""
        self._guard.removed(node, ghost_key(node))
        self._inflation = max(self._inflation, self._value(node))

    def trim(self, node: Node, num_pages: int) -> None:
        """So it does when only the tail goes."""
        self._guard.trimmed(node, num_pages)
        self._inflation = max(self._inflation, self._value(node))

    def rank(self, node: Node) -> Rank:
        """Value, then recency."""
        return self._value(node), node.stamp

    def quota(self, node: Node) -> int:
        """As much as recency allows."""
        return self._guard.quota(node)

    def _value(self, node: Node) -> float:
        clock: float = node.state[1]
        return clock + (1 + math.log2(max(1, _uses(node)))) * _cost(node)


def _uses(node: Node) -> int:
    uses: int = 0 if node.state is None else node.state[0]
    return uses


def _cost(node: Node) -> float:
    """Relative time to compute a page at the end of `node` again."""
    page_len = node.page_bytes // TOKEN_BYTES
    return 1 + round(COST_STEPS * node.end * page_len / HALF_ATTENTION_LEN) / COST_STEPS
