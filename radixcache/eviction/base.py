"""What an eviction policy is: how it ranks the leaves that nobody uses."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from radixcache.eviction.order import EvictionOrder, Order
from radixcache.node import Node

Rank: TypeAlias = Any
"""Anything that compares with itself. The smallest goes first."""


class Use(NamedTuple):
    """What a sequence said about itself when it was opened."""

    priority: int = 0
    until: float | None = None
    """Time up to which the priority holds; `None`: no end."""


class EvictionPolicy:
    """Ranks evictable leaves; the base keeps plain recency, which most policies refine.

    The tree calls these methods; a policy overrides those whose meaning differs for its key. It may read a
    node and write `stamp` and `state`, nothing else. A touch names the deepest node of a path only. When a
    child goes, `inherit` gives its parent what the child knew, so that by the time the parent is a leaf it
    knows every use of its path.

    Args:
        num_pages: Pages in the pool, for policies that have shares or turnovers.

    Complexity:
        Each method O(1) here; what a policy adds, it states.
    """

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self._clock = 0

    def make_order(self) -> Order:
        """The order that leaves stand in, made once; a policy whose ranks change with time brings its own."""
        return EvictionOrder(self)

    def bind(self, reorder: Callable[[Node], None]) -> None:
        """Take the function to call with a node whose rank changed outside the calls below."""

    def tick(self) -> int:
        """The next logical time, counted from 1."""
        self._clock += 1
        return self._clock

    def admit(self, num_pages: int) -> None:
        """A request whose prompt has that many whole pages is counted; `touch` follows if it matched any."""

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """`node` was added as a leaf; `continued`: the same sequence published the parent just before."""
        self._clock = node.stamp = self._clock + 1

    def touch(self, node: Node, use: Use) -> None:
        """`node` is the deepest on a path that was used."""
        self._clock = node.stamp = self._clock + 1

    def split(self, upper: Node, lower: Node) -> None:
        """`upper` took the head of `lower`'s edge. What it knows now, it will inherit."""

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """Whether giving the pages of `upper` to its only child changes no order of eviction."""
        return upper.stamp <= lower.stamp

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`."""

    def inherit(self, parent: Node, child: Node) -> None:
        """`child` is about to leave `parent`."""
        if child.stamp > parent.stamp:
            parent.stamp = child.stamp

    def trim(self, node: Node, num_pages: int) -> None:
        """`num_pages` pages went from the tail of `node`."""

    def remove(self, node: Node) -> None:
        """`node` leaves the tree; called after `inherit`, while its parent is still known."""

    def rank(self, node: Node) -> Rank:
        """Rank of an evictable leaf. Ties break by node number."""
        return node.stamp

    def quota(self, node: Node) -> int:
        """Pages that may go from the tail of `node` before its rank is asked for again, at least 1."""
        return node.num_pages

    def advance_time(self, now: float) -> None:
        """The owner's clock moved to `now`. Unit: seconds; lookups where the owner tells no time."""
