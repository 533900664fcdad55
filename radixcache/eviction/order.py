"""The order in which evictable leaves would go, kept up to date at every change."""

from collections.abc import Callable
from typing import Any, Protocol

from sortedcontainers import SortedList

from radixcache.node import Node


class Ranking(Protocol):
    """What this order asks of a policy."""

    def bind(self, reorder: Callable[[Node], None]) -> None:
        """Take the function to call with a node whose rank changed."""
        ...

    def rank(self, node: Node) -> Any:
        """Rank of a leaf; the smallest goes first."""
        ...


class FallbackRanking(Ranking, Protocol):
    """A policy whose ranks are pairs, (value, time of the last use)."""

    @property
    def follows_recency(self) -> bool:
        """Whether the time alone decides at present."""
        ...


class Order(Protocol):
    """What the tree asks of an order. Nodes that are in have rank and number in `entry`, others `None`."""

    def __len__(self) -> int: ...

    def add(self, node: Node) -> None:
        """Take in a leaf that became evictable."""
        ...

    def discard(self, node: Node) -> None:
        """Take out a node that is no longer evictable, if it is in."""
        ...

    def update(self, node: Node) -> None:
        """Move a node whose rank may have changed, if it is in."""
        ...

    def first(self) -> Node | None:
        """The leaf that goes next."""
        ...

    def pop_first(self) -> None:
        """Take out the leaf that `first` says."""
        ...

    def nodes(self) -> list[Node]:
        """All evictable leaves, the one that goes next first."""
        ...


class EvictionOrder:
    """Evictable leaves by rank, ties by node number.

    A heap with lazy deletion would be as fast in the mean, but one call after many touches then pays for all
    of them. Here every call costs O(log n).
    """

    def __init__(self, policy: Ranking) -> None:
        self._rank = policy.rank
        self._entries: SortedList[tuple[Any, int, Node]] = SortedList()
        policy.bind(self.update)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, node: Node) -> None:
        """Take in a leaf that became evictable."""
        entry = (self._rank(node), node.number, node)
        node.entry = entry
        self._entries.add(entry)

    def discard(self, node: Node) -> None:
        """Take out a node that is no longer evictable, if it is in."""
        if node.entry is not None:
            self._entries.remove(node.entry)
            node.entry = None

    def pop_first(self) -> None:
        """Take out the leaf that `first` says."""
        self._entries.pop(0)[2].entry = None

    def update(self, node: Node) -> None:
        """Move a node whose rank may have changed, if it is in."""
        if node.entry is not None and self._rank(node) != node.entry[0]:
            self.discard(node)
            self.add(node)

    def first(self) -> Node | None:
        """The leaf that goes next."""
        try:
            return self._entries[0][2]
        except IndexError:
            return None

    def nodes(self) -> list[Node]:
        """All evictable leaves, the one that goes next first. O(n)."""
        return [entry[2] for entry in self._entries]


class FallbackOrder(EvictionOrder):
    """Evictable leaves by rank and, beside it, by last use; the policy says which of the two decides.

    Twice the work of `EvictionOrder`, so that the answer can change between two evictions.
    """

    def __init__(self, policy: FallbackRanking) -> None:
        super().__init__(policy)
        self._policy = policy
        self._by_use: SortedList[tuple[Any, int, Node]] = SortedList()

    def add(self, node: Node) -> None:
        """Take in a leaf that became evictable."""
        super().add(node)
        assert node.entry is not None
        self._by_use.add(_by_use(node.entry))

    def discard(self, node: Node) -> None:
        """Take out a node that is no longer evictable, if it is in."""
        if node.entry is not None:
            self._by_use.remove(_by_use(node.entry))
            super().discard(node)

    def pop_first(self) -> None:
        """Take out the leaf that `first` says."""
        node = self.first()
        if node is not None:
            self.discard(node)

    def first(self) -> Node | None:
        """The leaf that goes next."""
        if not self._policy.follows_recency:
            return super().first()
        return self._by_use[0][2] if self._by_use else None

    def nodes(self) -> list[Node]:
        """All evictable leaves, the one that goes next first. O(n)."""
        return [entry[2] for entry in self._by_use] if self._policy.follows_recency else super().nodes()


def _by_use(entry: tuple[Any, int, Node]) -> tuple[Any, int, Node]:
    (_, stamp), number, node = entry
    return stamp, number, node
