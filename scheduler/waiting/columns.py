"""Every waiting request as a row of numbers, for orders whose keys change with time."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.request import Request
from scheduler.waiting.node import WaitNode

Column = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

_PARENT, _MATCH, _HELD = range(3)
_COLD: Final = -1
_FEW: Final = 256


class RequestColumns:
    """Time of submission, prompt length and match of every request that waits.

    A request's match is that of the nearest node above it that is not cold. Nodes that changed are noted, and
    when somebody asks, the requests below them are looked up: one by one where they are few, otherwise all at
    once. So a node that moves costs the same however many wait below it.

    Args:
        is_held: Whether the page that the prompts of a node need next is in flight.

    Complexity:
        O(d) for a request that comes, for d nodes on its path; O(1) amortised for each other change. `best`:
        O(waiting) in NumPy, for 10,000 requests some 50 µs, and 300 µs where many of them moved.
    """

    def __init__(self, is_held: Callable[[WaitNode], bool]) -> None:
        self._is_held = is_held
        self._row_of_node: dict[WaitNode, int] = {}
        self._free: list[int] = []
        self._nodes: Rows = np.zeros((3, 64), dtype=np.int64)
        self._changed: set[WaitNode] = set()
        self._few = _FEW
        self._requests: list[Request] = []
        self._row_of: dict[int, int] = {}
        self._values: Column = np.zeros((3, 64))
        self._ends: Rows = np.zeros(64, dtype=np.int64)
        self._held: npt.NDArray[np.bool_] = np.zeros(64, dtype=np.bool_)

    # Nodes; see `Points`

    def put(self, node: WaitNode) -> None:
        """See `Points`: something about the node changed."""
        row = self._row_of_node.get(node)
        if row is None:
            self._row(node)
        elif self._write(node, row):
            self._changed.add(node)

    discard = put

    def forget(self, node: WaitNode) -> None:
        """See `Points`. Whoever waits below it leaves the cache where it did before."""
        row = self._row_of_node.pop(node, None)
        if row is None:
            return
        if self._row_of_node:
            self._free.append(row)
        else:
            self._free.clear()
        if node in self._changed:
            self._changed.remove(node)
            self._changed.update(node.children.values())

    def _row(self, node: WaitNode) -> int:
        """The row of a node. A new node changes nothing for those who waited before."""
        row = self._row_of_node.get(node)
        if row is None:
            row = self._free.pop() if self._free else len(self._row_of_node)
            self._row_of_node[node] = row
            if row == self._nodes.shape[1]:
                self._nodes = np.concatenate((self._nodes, np.zeros_like(self._nodes)), axis=1)
            self._write(node, row)
        return row

    def _write(self, node: WaitNode, row: int) -> bool:
        """Bring a row up to date; returns whether that may change the match of those below."""
        parent = row if node.parent is None else self._row(node.parent)
        match, held = _COLD if node.is_cold else node.match, int(self._is_held(node))
        _, old_match, old_held = self._nodes[:, row].tolist()
        self._nodes[:, row] = (parent, match, held)
        return bool(match != old_match or held != old_held)

    # Requests

    def add(self, request: Request, node: WaitNode) -> None:
        """A request waits, whose prompt ends with a node."""
        row = self._row_of[request.number] = len(self._requests)
        self._requests.append(request)
        if row == len(self._ends):
            self._values = np.concatenate((self._values, np.zeros_like(self._values)), axis=1)
            self._ends = np.concatenate((self._ends, np.zeros_like(self._ends)))
            self._held = np.concatenate((self._held, np.zeros_like(self._held)))
        assert request.submitted_at is not None
        self._ends[row] = self._row(node)
        self._values[:2, row] = (request.submitted_at, len(request.prompt))
        self._look_up(request, node)

    def remove(self, request: Request) -> None:
        """A request waits no longer. The last row takes its place."""
        row, last = self._row_of.pop(request.number), self._requests.pop()
        if last is not request:
            end = len(self._requests)
            self._requests[row] = last
            self._row_of[last.number] = row
            self._values[:, row] = self._values[:, end]
            self._ends[row], self._held[row] = self._ends[end], self._held[end]

    def best(self, score: Callable[[Column, Column, Column], Column]) -> Request | None:
        """The request with the highest score that is not held, the older one among equals.

        Args:
            score: Given times of submission, prompt lengths (tokens) and matches (pages).
        """
        count = len(self._requests)
        if not count:
            return None
        self._follow()
        since, lengths, matches = self._values[:, :count]
        scores = score(since, lengths, matches)
        scores[self._held[:count]] = -np.inf
        highest = scores.max()
        if highest == -np.inf:
            return None
        equals = np.flatnonzero(scores == highest).tolist()
        return min((self._requests[row] for row in equals), key=lambda request: request.number)

    # Matches

    def _follow(self) -> None:
        """Look up those below the nodes that changed."""
        if sum(node.weight for node in self._changed) > self._few:
            self._look_up_all()
        else:
            for node in self._changed:
                self._look_up_below(node)
        self._changed.clear()

    def _look_up_below(self, node: WaitNode) -> None:
        pending = [node]
        while pending:
            at = pending.pop()
            for request in at.requests.values():
                if request.number in self._row_of:
                    self._look_up(request, at)
            pending.extend(child for child in at.children.values() if child.is_cold)

    def _look_up(self, request: Request, node: WaitNode) -> None:
        below, at = node, node
        while at.is_cold:
            assert at.parent is not None
            below, at = at, at.parent
        row = self._row_of[request.number]
        self._values[2, row] = at.match
        self._held[row] = self._is_held(below) or self._is_held(at)

    def _look_up_all(self) -> None:
        """As many steps as cold nodes lie one above the other, each for all requests at once."""
        count = len(self._requests)
        parents, node_matches, node_held = self._nodes
        at = self._ends[:count]
        matches, held = node_matches[at], node_held[at] > 0
        cold = np.flatnonzero(matches == _COLD)
        at = at[cold]
        while len(cold):
            above = parents[at]
            found = node_matches[above]
            is_warm = found != _COLD
            warm = cold[is_warm]
            matches[warm] = found[is_warm]
            held[warm] = (node_held[at[is_warm]] | node_held[above[is_warm]]) > 0
            cold, at = cold[~is_warm], above[~is_warm]
        self._values[2, :count] = matches
        self._held[:count] = held
