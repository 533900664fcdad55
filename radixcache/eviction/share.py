"""A protected part of the tree that may not outgrow a share of the pool."""

from collections.abc import Iterator
from typing import Any

from sortedcontainers import SortedList

from radixcache.node import Node


class _Member:
    __slots__ = ("entry", "num_children", "rank")

    def __init__(self, rank: Any) -> None:
        self.rank = rank
        self.num_children = 0
        self.entry: tuple[Any, int, Node] | None = None


class CappedShare:
    """Nodes under protection: closed towards the root, and at most `max_pages` pages in all.

    Past the limit the members without protected children leave, lowest rank first; the parent of one that
    leaves inherits its rank, as it was used whenever the child was.

    Complexity:
        `add`: O(log n) amortised, climbing stops at the first member. `discard`: O(log n).
    """

    def __init__(self, max_pages: int, lowest_rank: Any) -> None:
        self._max_pages = max_pages
        self._lowest_rank = lowest_rank
        self._members: dict[Node, _Member] = {}
        self._ends: SortedList[tuple[Any, int, Node]] = SortedList()
        self.num_pages = 0

    def __contains__(self, node: Node) -> bool:
        return node in self._members

    def rank(self, node: Node) -> Any:
        """Rank of a member."""
        return self._members[node].rank

    def is_end(self, node: Node) -> bool:
        """Whether a member has no protected child."""
        return not self._members[node].num_children

    def add(self, node: Node, rank: Any) -> None:
        """Protect `node` with all above it; `rank` holds for `node`."""
        member = self._members.get(node)
        if member is None:
            member = self._climb(node)
        self._set_rank(node, member, rank)

    def overflow(self) -> Iterator[Node]:
        """Drop members until the share is kept; yields each after it left."""
        while self.num_pages > self._max_pages and self._ends:
            node = self._ends[0][2]
            self.discard(node)
            yield node

    def below(self, rank: Any) -> Iterator[Node]:
        """Drop members of a lower rank, children before parents; yields each after it left."""
        while self._ends and self._ends[0][0] < rank:
            node = self._ends[0][2]
            self.discard(node)
            yield node

    def discard(self, node: Node) -> None:
        """Take out a member that has no protected child, if it is one; its parent inherits its rank."""
        member = self._members.pop(node, None)
        if member is None:
            return
        assert not member.num_children
        self._leave_ends(member)
        self.num_pages -= node.num_pages
        parent = node.parent
        above = None if parent is None else self._members.get(parent)
        if parent is not None and above is not None:
            above.num_children -= 1
            self._set_rank(parent, above, max(above.rank, member.rank))

    def split(self, upper: Node, lower: Node) -> None:
        """`upper` took the head of `lower`'s edge and stands above it."""
        if lower in self._members:
            member = _Member(self._lowest_rank)
            member.num_children = 1
            self._members[upper] = member

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`, and its rank if higher; both were members or neither."""
        member, heir = self._members.pop(upper, None), self._members.get(lower)
        assert (member is None) == (heir is None)
        if member is not None and heir is not None and heir.rank < member.rank:
            self._set_rank(lower, heir, member.rank)

    def trim(self, node: Node, num_pages: int) -> None:
        """`num_pages` pages went from the tail of `node`."""
        if node in self._members:
            self.num_pages -= num_pages

    def _climb(self, node: Node) -> _Member:
        first = self._members[node] = _Member(self._lowest_rank)
        self.num_pages += node.num_pages
        above = node.parent
        while above is not None and above.parent is not None:
            member = self._members.get(above)
            if member is not None:
                member.num_children += 1
                self._leave_ends(member)
                break
            member = self._members[above] = _Member(self._lowest_rank)
            member.num_children = 1
            self.num_pages += above.num_pages
            above = above.parent
        return first

    def _set_rank(self, node: Node, member: _Member, rank: Any) -> None:
        self._leave_ends(member)
        member.rank = rank
        if not member.num_children:
            member.entry = (rank, node.number, node)
            self._ends.add(member.entry)

    def _leave_ends(self, member: _Member) -> None:
        if member.entry is not None:
            self._ends.remove(member.entry)
            member.entry = None
