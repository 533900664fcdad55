"""Which child's first page agrees longest with given tokens: the index behind partial-page reuse."""

from typing import Final

from sortedcontainers import SortedList

from radixcache.compare import common_units
from radixcache.node import Node
from radixcache.tokens import TOKEN_BYTES

_UNIT: Final = TOKEN_BYTES


class _Level:
    """Children that agree in as many tokens as the level is deep, by their next token."""

    __slots__ = ("population", "slots")

    def __init__(self) -> None:
        self.slots: dict[bytes, Node | _Level] = {}
        self.population: SortedList[tuple[int, Node]] = SortedList()


class AgreementIndex:
    """A trie over the first pages of a node's children, no deeper than needed to tell them apart.

    Complexity:
        Each method O(page_size + log n) for n children, in memory proportional to what children share.
    """

    __slots__ = ("_top",)

    def __init__(self) -> None:
        self._top = _Level()

    def add(self, child: Node) -> None:
        """Take in a child whose first page differs from those of all others."""
        level, at = self._top, 0
        while True:
            level.population.add((child.number, child))
            token = child.edge[at : at + _UNIT]
            there = level.slots.get(token)
            if there is None:
                level.slots[token] = child
                return
            at += _UNIT
            if isinstance(there, Node):
                deeper = _Level()
                deeper.population.add((there.number, there))
                deeper.slots[there.edge[at : at + _UNIT]] = there
                level.slots[token] = there = deeper
            level = there

    def remove(self, child: Node) -> None:
        """Take out a child."""
        level, at = self._top, 0
        while True:
            level.population.remove((child.number, child))
            token = child.edge[at : at + _UNIT]
            there = level.slots[token]
            if isinstance(there, Node):
                del level.slots[token]
                return
            if len(there.population) == 2:
                level.slots[token] = next(other for _, other in there.population if other is not child)
                return
            level, at = there, at + _UNIT

    def longest(self, data: bytes, at: int, limit: int) -> tuple[Node, int] | None:
        """The child that agrees longest with `data[at:limit]`, the lowest node number among equals.

        Returns:
            The child and the number of tokens that agree, at least one; `None` if no child agrees in any.
        """
        level, position = self._top, at
        while True:
            there = level.slots.get(data[position : position + _UNIT]) if position + _UNIT <= limit else None
            if there is None:
                agreed = (position - at) // _UNIT
                return (level.population[0][1], agreed) if agreed else None
            if isinstance(there, Node):
                return there, common_units(data, at, limit, there.edge, _UNIT)
            level, position = there, position + _UNIT
