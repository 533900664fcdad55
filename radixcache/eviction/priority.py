"""Priorities and retention times, as hints that can never block."""

import math
from collections.abc import Callable
from typing import Final

from sortedcontainers import SortedList

from radixcache.eviction.base import EvictionPolicy, Rank, Use
from radixcache.eviction.share import CappedShare
from radixcache.node import Node

HINTED_SHARE: Final = 0.5

_NO_HINT: Final = (0, -math.inf, 0)


class Priority(EvictionPolicy):
    """Leaves with a higher priority go later; LRU among equals.

    A priority holds for the whole path of the sequence that gave it, until its retention time ends. Hinted
    pages may fill at most `HINTED_SHARE` of the pool: past that, the lowest and oldest hints are forgotten. A
    hint only orders: what is evictable stays evictable, so no hint can make a request fail.

    `state` is the node's place among the hints that end.

    Complexity:
        O(log n) for each hint that is given, forgotten or over.
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self._hinted = CappedShare(int(num_pages * HINTED_SHARE), lowest_rank=_NO_HINT)
        self._endings: SortedList[tuple[float, int, Node]] = SortedList()

    def bind(self, reorder: Callable[[Node], None]) -> None:
        """Keep `reorder` for nodes whose hint ends."""
        self._reorder = reorder

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """A new leaf is under the hint of its sequence."""
        super().insert(node, use, continued=continued)
        self._hint(node, use)

    def touch(self, node: Node, use: Use) -> None:
        """The path comes under the hint of the sequence that uses it, if that is the higher one."""
        super().touch(node, use)
        self._hint(node, use)

    def _hint(self, node: Node, use: Use) -> None:
        if not use.priority:
            return
        hint = (use.priority, math.inf if use.until is None else use.until, node.stamp)
        if node not in self._hinted or self._hinted.rank(node) < hint:
            self._hinted.add(node, hint)
            self._watch(node)
        for forgotten in self._hinted.overflow():
            self._forgot(forgotten)

    def advance_time(self, now: float) -> None:
        """Forget the hints whose time is over."""
        while self._endings and self._endings[0][0] <= now:
            node = self._endings[0][2]
            self._unwatch(node)
            if self._hinted.is_end(node):
                self._hinted.discard(node)
                self._forgot(node)
            else:
                self._hinted.add(node, _NO_HINT)  # stays for the hints below it, which it will inherit

    def split(self, upper: Node, lower: Node) -> None:
        """Both halves are under one hint."""
        self._hinted.split(upper, lower)

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """Where the upper half has no hint of its own that outlives the lower one's."""
        return (
            upper.stamp <= lower.stamp
            and (upper in self._hinted) == (lower in self._hinted)
            and (upper not in self._hinted or self._hinted.rank(upper) <= self._hinted.rank(lower))
        )

    def merge(self, upper: Node, lower: Node) -> None:
        """One hinted node less."""
        self._unwatch(upper)
        self._hinted.merge(upper, lower)

    def trim(self, node: Node, num_pages: int) -> None:
        """The share shrinks."""
        self._hinted.trim(node, num_pages)

    def remove(self, node: Node) -> None:
        """The parent inherits the hint."""
        self._unwatch(node)
        self._hinted.discard(node)
        self._watch_parent(node)

    def rank(self, node: Node) -> Rank:
        """Priority, then recency."""
        return (self._hinted.rank(node)[0] if node in self._hinted else 0, node.stamp)

    def _forgot(self, node: Node) -> None:
        self._unwatch(node)
        self._reorder(node)
        self._watch_parent(node)

    def _watch_parent(self, node: Node) -> None:
        if node.parent is not None and node.parent in self._hinted:
            self._watch(node.parent)

    def _watch(self, node: Node) -> None:
        self._unwatch(node)
        until = self._hinted.rank(node)[1]
        if -math.inf < until < math.inf:
            node.state = (until, node.number, node)
            self._endings.add(node.state)

    def _unwatch(self, node: Node) -> None:
        if node.state is not None:
            self._endings.remove(node.state)
            node.state = None
