"""Nodes of a forest as rows of numbers, to look up many requests at once."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.waiting.node import WaitNode
from scheduler.waiting.rows import grown

Rows = npt.NDArray[np.int64]

_COLD: Final = -1
_UNWRITTEN: Final = 256


class NodeTable:
    """Parent and match of every node. Nodes that changed are written many at once.

    Complexity:
        `changed` and `forget` O(1) amortised. `points_above`: as many steps in NumPy as cold nodes lie one
        above the other, each O(rows).
    """

    def __init__(self) -> None:
        self._row_of: dict[WaitNode, int] = {}
        self._free: list[int] = []
        self._unwritten: set[WaitNode] = set()
        self._parents: Rows = _small()
        self._matches: Rows = _small()

    def row_of(self, node: WaitNode) -> int:
        """The row of a node, the same as long as it is in the tree."""
        if node not in self._row_of:
            self.changed(node)
        return self._row(node)

    def _row(self, node: WaitNode) -> int:
        row = self._row_of.get(node)
        if row is None:
            row = self._row_of[node] = self._free.pop() if self._free else len(self._row_of)
            self._unwritten.add(node)
        return row

    def changed(self, node: WaitNode) -> None:
        """A node came, its match changed, or it has another parent."""
        self._unwritten.add(node)
        if len(self._unwritten) > _UNWRITTEN:
            self._write()

    def forget(self, node: WaitNode) -> None:
        """A node left the tree."""
        self._unwritten.discard(node)
        row = self._row_of.pop(node, None)
        if not self._row_of:
            self._free.clear()
            self._parents, self._matches = _small(), _small()
        elif row is not None:
            self._free.append(row)

    def points_above(self, ends: Rows) -> tuple[Rows, Rows, Rows]:
        """Where the prompts that end with some nodes leave the cache.

        Args:
            ends: Rows of those nodes.

        Returns:
            Rows of the points, rows of the nodes below them that the prompts go on to (the point itself where
            it is not cold), and the matches of the points in pages; int64 of the shape of `ends`.
        """
        self._write()
        points, nexts, matches = ends.copy(), ends.copy(), self._matches[ends]
        cold = np.flatnonzero(matches == _COLD)
        while len(cold):
            above = self._parents[points[cold]]
            nexts[cold], points[cold], matches[cold] = points[cold], above, self._matches[above]
            cold = cold[matches[cold] == _COLD]
        return points, nexts, matches

    def marked(self, nodes: Iterable[WaitNode]) -> npt.NDArray[np.bool_]:
        """For each row whether it is that of one of the nodes."""
        is_marked = np.zeros(len(self._parents), dtype=np.bool_)
        is_marked[[self._row_of[node] for node in nodes]] = True
        return is_marked

    def _write(self) -> None:
        while self._unwritten:
            nodes, self._unwritten = list(self._unwritten), set()
            rows = [self._row(node) for node in nodes]
            parents = [self._row(node if node.parent is None else node.parent) for node in nodes]
            num_rows = len(self._row_of) + len(self._free)
            while len(self._parents) < num_rows:
                self._parents, self._matches = grown(self._parents), grown(self._matches)
            self._parents[rows] = parents
            self._matches[rows] = [_COLD if node.is_cold else node.match for node in nodes]


def _small() -> Rows:
    return np.zeros(8, dtype=np.int64)
