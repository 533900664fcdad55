"""What is told of the changes of a forest, so that it can say who is first."""

import heapq
from collections.abc import Callable
from typing import Protocol

from scheduler.waiting.choice import Choice
from scheduler.waiting.node import NOBODY, WaitNode
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
        entry, parent = node.entry, node.parent
        self._refresh(node)
        if parent is not None and not node.is_cold and parent.cold and parent.cold[0] is entry:
            self._refresh(parent)  # whose best was that of this node, while it was cold

    def split(self, upper: WaitNode, lower: WaitNode) -> None:
        """See `NodeOrder`."""
        lower.entry = None  # that was for the parent of both
        self._refresh(lower)
        self._refresh(upper)

    def merged(self, upper: WaitNode, lower: WaitNode) -> None:
        """See `NodeOrder`."""
        upper.entry = lower.entry = None
        self._points.discard(upper)

    def gone(self, node: WaitNode, parent: WaitNode | None) -> None:
        """See `NodeOrder`."""
        node.entry = None
        self._points.discard(node)
        if parent is not None:
            self._trim(parent)

    def _refresh(self, node: WaitNode, *, weighed: bool = False) -> None:
        """Bring the best request of a node up to date, and of those above it as far as it changes them."""
        at: WaitNode | None = node
        while at is not None:
            at.best = self._choice.best(at, self._cold_top(at))
            is_offered = at.best != NOBODY and not self._is_held(at)
            if at.is_cold:
                self._points.discard(at)
                is_changed = self._offer(at, is_offered=is_offered)
            else:
                is_changed = False
                at.entry = None
                if is_offered:
                    self._points.put(at)
                else:
                    self._points.discard(at)
            if not (is_changed or weighed):
                return
            at = at.parent

    def _offer(self, node: WaitNode, *, is_offered: bool) -> bool:
        """Enter a cold node with its parent; returns whether that changed anything."""
        entry, parent = node.entry, node.parent
        assert parent is not None
        if not is_offered:
            node.entry = None
            return entry is not None
        node.entry = (*self._choice.rank(node), node.uid, node)
        if node.entry == entry:
            node.entry = entry  # which the heap has
            return False
        heapq.heappush(parent.cold, node.entry)
        self._trim(parent)
        return True

    def _cold_top(self, node: WaitNode) -> WaitNode | None:
        """The best child that is offered, after dropping entries that are out of date."""
        while node.cold:
            entry = node.cold[0]
            child: WaitNode = entry[-1]
            if child.entry is entry:
                return child
            heapq.heappop(node.cold)
        return None

    def _trim(self, node: WaitNode) -> None:
        """Rebuild a heap most of whose entries are out of date."""
        if len(node.cold) > 2 * len(node.children) + 8:
            node.cold = [child.entry for child in node.children.values() if child.entry is not None]
            heapq.heapify(node.cold)
