"""An order of eviction whose ranks change with age: one recency list for each class of leaves."""

from collections.abc import Hashable, Iterator
from typing import Any, Protocol, TypeAlias

from sortedcontainers import SortedList

from radixcache.node import Node

Place: TypeAlias = tuple[Any, float]
"""Class of a leaf and when it was used last."""


class AgeingPolicy(Protocol):
    """What the order asks of a policy."""

    now: float
    version: int
    """Changes whenever values do, other than by age."""

    def rank(self, node: Node) -> Place:
        """Where a leaf stands."""
        ...

    def value(self, key: Hashable, age: float) -> tuple[float, float]:
        """What a page of that class is worth at that age, and the age at which this changes."""
        ...


class _Class:
    """Leaves of one class by last use, and which of the two at the ends is worth less."""

    __slots__ = ("best", "entries", "until", "version")

    def __init__(self) -> None:
        self.entries: SortedList[tuple[Place, int, Node]] = SortedList()
        self.best: tuple[float, float, int] = (0.0, 0.0, 0)
        self.until = 0.0
        self.version = -1


class ClassOrder:
    """Evictable leaves, one that is worth least first; ties between classes by last use, then by number.

    Within a class the worth of a page is taken to rise with its age, then to fall, as it does where things
    return after some typical pause. The least is then at one end of the list: the leaf used last, or the
    one unused for longest. So an eviction looks at two leaves of each class, whatever their number.

    Args:
        policy: Says which class a leaf is of, and what a class is worth at an age.

    Complexity:
        `first`: O(classes). `add`, `discard`, `update`: O(log n).
    """

    def __init__(self, policy: AgeingPolicy) -> None:
        self._policy = policy
        self._classes: dict[Hashable, _Class] = {}
        self._num_leaves = 0

    def __len__(self) -> int:
        return self._num_leaves

    def add(self, node: Node) -> None:
        """Take in a leaf that became evictable."""
        place = self._policy.rank(node)
        group = self._classes.get(place[0])
        if group is None:
            group = self._classes[place[0]] = _Class()
        entry = (place, node.number, node)
        node.entry = entry
        group.entries.add(entry)
        group.version = -1
        self._num_leaves += 1

    def discard(self, node: Node) -> None:
        """Take out a node that is no longer evictable, if it is in."""
        if node.entry is not None:
            key = node.entry[0][0]
            group = self._classes[key]
            group.entries.remove(node.entry)
            group.version = -1
            node.entry = None
            self._num_leaves -= 1
            if not group.entries:
                del self._classes[key]

    def update(self, node: Node) -> None:
        """Move a node whose place may have changed, if it is in."""
        if node.entry is not None and self._policy.rank(node) != node.entry[0]:
            self.discard(node)
            self.add(node)

    def first(self) -> Node | None:
        """The leaf that goes next."""
        policy = self._policy
        now, version = policy.now, policy.version
        least: _Class | None = None
        for key, group in self._classes.items():
            if group.version != version or now >= group.until:
                self._look(key, group)
            if least is None or group.best < least.best:
                least = group
        if least is None:
            return None
        oldest: Node = least.entries[0][2]
        return oldest if oldest.number == least.best[2] else least.entries[-1][2]

    def pop_first(self) -> None:
        """Take out the leaf that `first` says."""
        node = self.first()
        if node is not None:
            self.discard(node)

    def _look(self, key: Hashable, group: _Class) -> None:
        policy = self._policy
        now, until = policy.now, float("inf")
        best: tuple[float, float, int] | None = None
        for (_, born), number, _ in (group.entries[0], group.entries[-1]):
            worth, change = policy.value(key, now - born)
            until = min(until, born + change)
            if best is None or (worth, born, number) < best:
                best = (worth, born, number)
        assert best is not None
        group.best, group.until, group.version = best, until, policy.version

    def nodes(self) -> list[Node]:
        """All evictable leaves: the one that goes next, then the others by worth. O(n log n)."""
        first = self.first()
        ranked = [entry[-1] for entry in sorted(self._worths(), key=lambda entry: entry[:3])]
        return [] if first is None else [first, *(node for node in ranked if node is not first)]

    def _worths(self) -> Iterator[tuple[float, float, int, Node]]:
        now = self._policy.now
        for key, group in self._classes.items():
            for (_, born), number, node in group.entries:
                yield self._policy.value(key, now - born)[0], born, number, node
