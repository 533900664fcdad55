"""Points in order: how the best is found among all places where waiting prompts leave the cache."""

import heapq
from collections.abc import Callable
from typing import Final, Protocol

from scheduler.waiting.node import Entry, Rank, WaitNode

_SOME: Final = 16


class Points(Protocol):
    """Holds every point that has a request to offer."""

    def put(self, node: WaitNode) -> None:
        """A point came, or its match or best request changed."""
        ...

    def discard(self, node: WaitNode) -> None:
        """A node is no point, has nobody to offer, or left the tree."""
        ...


def by_match(node: WaitNode) -> Rank:
    """Longest match first, then the oldest best request."""
    return (-node.match, node.best)


def by_number(node: WaitNode) -> Rank:
    """Oldest best request first."""
    return (node.best,)


class HeapedPoints:
    """Points by a key, smallest first.

    Complexity:
        O(log points) amortised for each call. At most twice as many entries as points, and some.
    """

    def __init__(self, key: Callable[[WaitNode], Rank]) -> None:
        self._key = key
        self._entries: dict[WaitNode, Entry] = {}
        self._heap: list[Entry] = []
        """All of these entries, and some that are out of date."""

    def put(self, node: WaitNode) -> None:
        """See `Points`."""
        entry = (*self._key(node), node.uid, node)
        if self._entries.get(node) != entry:
            self._entries[node] = entry
            heapq.heappush(self._heap, entry)
            self._trim()

    def discard(self, node: WaitNode) -> None:
        """See `Points`."""
        if self._entries.pop(node, None) is not None:
            self._trim()

    def _trim(self) -> None:
        """Drop what is out of date once it is most of the heap, or all."""
        if len(self._heap) > 2 * len(self._entries) + _SOME or not self._entries:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def first(self) -> WaitNode | None:
        """The point whose key is smallest."""
        while self._heap:
            entry = self._heap[0]
            node: WaitNode = entry[-1]
            if self._entries.get(node) is entry:
                return node
            heapq.heappop(self._heap)
        return None


class PairedPoints:
    """Points in two orders at once."""

    def __init__(self, first: Points, second: Points) -> None:
        self._both = (first, second)

    def put(self, node: WaitNode) -> None:
        """See `Points`."""
        for points in self._both:
            points.put(node)

    def discard(self, node: WaitNode) -> None:
        """See `Points`."""
        for points in self._both:
            points.discard(node)
