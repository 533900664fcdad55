"""What is told of the changes of a forest, so that it can say who is first."""

import heapq
from collections.abc import Callable
from typing import Protocol

from scheduler.waiting.choice import Choice
from scheduler.waiting.node import NOBODY, ColdEntry, WaitNode
from scheduler.waiting.points import Points


class NodeOrder(Protocol):
    """Follows a forest, node by node. Every call comes when the change is complete."""

    def peopled(self, node: WaitNode) -> None:
        """A request came to the node or left it, or a child without requests went."""
        ...

    def moved(self, node: WaitNode) -> None:
        """The match of those that wait below the node changed, or whether they are held."""
        ...

    def split(self, upper: WaitNode, lower: WaitNode) -> None:
        """The first pages of `lower` went to a new node; for those that wait nothing changed."""
        ...

    def merged(self, upper: WaitNode, lower: WaitNode) -> None:
        """`lower`, the only child, took the pages of a node that goes. `peopled` follows."""
        ...

    def gone(self, node: WaitNode, parent: WaitNode | None) -> None:
        """A node without requests and children left the tree. `peopled` follows for what stays above it."""
        ...


class PointOrder:
    """The best request of every node, and the points that have one to offer.

    Args:
        is_held: Whether the page that the prompts of a node need next is in flight.
        points: Where to keep the points, so that the best can be found.
        choice: Which requests of a point come first.

    Complexity:
        O(log waiting) for the node and each cold node above it; where weights count, for all above it.
    """

    def __init__(self, is_held: Callable[[WaitNode], bool], points: Points, choice: Choice) -> None:
        self._is_held = is_held
        self._points = points
        self._choice = choice

    def peopled(self, node: WaitNode) -> None:
        """See `NodeOrder`."""
        self._refresh(node, weighed=self._choice.weighs)

    def moved(self, node: WaitNode) -> None:
        """See `NodeOrder`."""
        self._refresh(node)
        parent = node.parent
        if parent is not None and not node.is_cold and parent.cold and parent.cold[0][2] is node:
            self._refresh(parent)  # whose best was that of this node, while it was cold

    def split(self, upper: WaitNode, lower: WaitNode) -> None:
        """See `NodeOrder`."""
        self._refresh(lower)
        self._refresh(upper)

    def merged(self, upper: WaitNode, lower: WaitNode) -> None:
        """See `NodeOrder`."""
        self._points.discard(upper)

    def gone(self, node: WaitNode, parent: WaitNode | None) -> None:
        """See `NodeOrder`."""
        self._points.discard(node)
        if parent is not None:
            self._trim(parent)

    def _refresh(self, node: WaitNode, *, weighed: bool = False) -> None:
        """Bring the best request of a node up to date, and of those above it as far as it changes them."""
        at: WaitNode | None = node
        while at is not None:
            top = self._cold_top(at)
            at.best = self._choice.best(at, None if top is None else top[2])
            offered = at.best != NOBODY and not self._is_held(at)
            if offered and not at.is_cold:
                self._points.put(at)
            else:
                self._points.discard(at)
            if at.is_cold:
                at.rank = self._choice.rank(at)
                if offered and at.parent is not None:
                    heapq.heappush(at.parent.cold, (at.rank, at.uid, at))
                    self._trim(at.parent)
            elif not weighed:
                return
            at = at.parent

    def _cold_top(self, node: WaitNode) -> ColdEntry | None:
        """The best cold child that is not held, after dropping entries that are out of date."""
        cold = node.cold
        while cold and not self._is_valid(node, cold[0]):
            heapq.heappop(cold)
        return cold[0] if cold else None

    def _is_valid(self, parent: WaitNode, entry: ColdEntry) -> bool:
        rank, _, child = entry
        return (
            child.rank == rank
            and child.parent is parent
            and child.best != NOBODY
            and child.is_cold
            and not self._is_held(child)
        )

    def _trim(self, node: WaitNode) -> None:
        """Rebuild a heap most of whose entries are out of date or doubled."""
        if len(node.cold) > 2 * len(node.children) + 8:
            node.cold = [
                (child.rank, child.uid, child)
                for child in node.children.values()
                if child.is_cold and child.best != NOBODY and not self._is_held(child)
            ]
            heapq.heapify(node.cold)
