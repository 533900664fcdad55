"""Points in order: how the best is found among all places where waiting prompts leave the cache."""

from collections.abc import Callable
from typing import Protocol

from sortedcontainers import SortedList

from scheduler.waiting.node import Rank, WaitNode


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


class SortedPoints:
    """Points by a key, smallest first.

    Complexity:
        O(log points) for each change, O(1) for `first`.
    """

    def __init__(self, key: Callable[[WaitNode], Rank]) -> None:
        self._key = key
        self._entries: dict[WaitNode, tuple[Rank, int, WaitNode]] = {}
        self._order: SortedList[tuple[Rank, int, WaitNode]] = SortedList()

    def put(self, node: WaitNode) -> None:
        """See `Points`."""
        key = self._key(node)
        entry = self._entries.get(node)
        if entry is not None:
            if entry[0] == key:
                return
            self._order.remove(entry)
        entry = self._entries[node] = (key, node.uid, node)
        self._order.add(entry)

    def discard(self, node: WaitNode) -> None:
        """See `Points`."""
        entry = self._entries.pop(node, None)
        if entry is not None:
            self._order.remove(entry)

    def first(self) -> WaitNode | None:
        """The point whose key is smallest."""
        return self._order[0][2] if self._order else None


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
