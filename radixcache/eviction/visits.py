"""What a cache can see of the requests behind its pages: who continued whom, after how long, by how much.

A visit is the last use of a path: one request. Policies that learn which visits are followed by another
derive from `VisitPolicy`, which makes the visits, notes their returns, also those to what was evicted
already, and leaves to them what to make of it.
"""

from collections import OrderedDict
from enum import IntEnum
from math import inf
from typing import Any, Final, NamedTuple

from radixcache.eviction.base import EvictionPolicy, Rank, Use
from radixcache.eviction.class_order import ClassOrder
from radixcache.eviction.ghost_runs import GhostKey, ghost_key
from radixcache.eviction.recency_guard import RecencyGuard
from radixcache.eviction.survival import AgeBins, Followed, SurvivalTable
from radixcache.node import Node

MIN_GHOSTS: Final = 4096
PAGES_PER_GHOST: Final = 64


class Cut(NamedTuple):
    """Where the end of a visit's path was trimmed."""

    depth: int
    first_page: bytes
    num_pages: int
    """From there to where the visit ended."""


class Kind(IntEnum):
    """What a visit was."""

    FIRST = 0
    """New pages below nothing, or below a prefix that others share."""
    NEXT = 1
    """New pages that continue an earlier visit."""
    AGAIN = 2
    """An earlier visit's path up to its end or close to it; nothing new so far."""
    REST = 3
    """The end of an earlier visit's path, left behind by the visit that continued it."""
    SHARED = 4
    """A prefix that several visits continue."""


class Visit(Followed):
    """The last use of a path.

    Attributes:
        kind: What it was.
        turns: Visits of this conversation so far; of a shared prefix: its uses.
        gap: Age of the visit that it continues, when it did.
        depth: Where it ended. Unit: pages from the root.
        origin: Where the visit that it continues ended; of a first visit: where its own pages begin.
        key: Class for the order of eviction; the policy's.
        tail: Pages at its end that the next visit is not expected to use; the policy's.
        cut: What was trimmed of its path last.
    """

    __slots__ = ("cut", "depth", "gap", "key", "kind", "origin", "tail", "turns")

    def __init__(self, kind: Kind, born: float, turns: int, gap: float, depth: int, origin: int) -> None:
        super().__init__(born)
        self.kind = kind
        self.turns = turns
        self.gap = gap
        self.depth = depth
        self.origin = origin
        self.key: Any = None
        self.tail = 0
        self.cut: Cut | None = None

    @property
    def grown(self) -> int:
        """Pages by which it is longer than what it continues, at least 0."""
        return max(0, self.depth - self.origin)


class VisitPolicy(EvictionPolicy):
    """Follows visits; each class of them has a recency list, and a page's worth changes with age.

    Time is counted in pages that requests asked for, hit or not. So ages are independent of the load, of what
    is evicted and of the owner's clock, and a turnover is as many as the pool has.

    A request that covers at least half of an earlier visit's path is taken to continue it; one that covers
    less shares a prefix with it. Evicted visits leave a ghost at the place from which they are missing, so
    that their returns are counted too: otherwise what is evicted early would seem never to return.

    `state` is the last visit of the path, `None` on the upper half of a fresh split, which knows what is
    known below it.

    A subclass says what a visit's class is (`describe`) and what a page is worth (`worth`). Where that finds
    less than recency would, recency decides for a while (`RecencyGuard`).

    Complexity:
        O(1) for each call, besides the table's, the guard's and the order's.
    """

    def __init__(self, num_pages: int) -> None:
        super().__init__(num_pages)
        self.now = 0.0
        self.version = 0
        self.bins = AgeBins(num_pages)
        self.table = SurvivalTable(self.bins)
        self._max_ghosts = max(MIN_GHOSTS, num_pages // PAGES_PER_GHOST)
        self._ghosts: OrderedDict[GhostKey, Visit] = OrderedDict()
        self._guard = RecencyGuard(num_pages)

    def make_order(self) -> ClassOrder:
        """An order whose ranks change with age."""
        self.order = ClassOrder(self)
        return self.order

    # What a subclass says

    def describe(self, visit: Visit) -> int:
        """Set `key` and, if need be, `tail` of a new visit; return its row in the table."""
        raise NotImplementedError

    def worth(self, key: Any, age: float) -> tuple[float, float]:
        """What a page is worth at an age, and the age at which that changes; `key` as in `rank`."""
        raise NotImplementedError

    def lost(self, num_pages: int) -> None:
        """A visit was continued, but not from its last `num_pages` pages."""

    def relearn(self) -> None:
        """A visit more was made; called after each."""

    # What the order asks

    def value(self, key: Any, age: float) -> tuple[float, float]:
        """`worth`, or the same for all, so that recency decides."""
        return (0.0, inf) if self._guard.follows_recency else self.worth(key, age)

    # What the tree says

    def admit(self, num_pages: int) -> None:
        """A request more to hold finds against."""
        self._guard.admitted(num_pages)

    def touch(self, node: Node, use: Use) -> None:
        """A request matched up to the end of `node`."""
        self.now += node.end
        seen = known(node)
        if self._guard.touched(node):
            self.version += 1
        if seen is None:
            node.state = self._open(Visit(Kind.SHARED, self.now, 1, 0.0, node.end, node.end))
        elif node.children is not None and node.state is not None:
            self._share(node, seen)
        elif 2 * node.end < seen.depth:
            self._share(node, None)
        else:
            self._continue(node, seen)

    def _continue(self, node: Node, seen: Visit) -> None:
        gap = self.now - seen.born
        again = Visit(Kind.AGAIN, self.now, seen.turns, gap, node.end, seen.depth)
        if node.children is not None or node.end == seen.depth:
            self.lost(seen.depth - node.end)
        else:
            again.cut = seen.cut
        self.table.returned(seen, self.now)
        rest = next(iter(node.children.values())) if node.children else None
        node.state = self._open(again)
        if rest is not None and rest.children is None:
            rest.state = self._open(Visit(Kind.REST, seen.born, seen.turns, gap, rest.end, rest.start))
            self.order.update(rest)

    def _share(self, node: Node, seen: Visit | None) -> None:
        turns, gap = 1, 0.0
        if seen is not None:
            self.table.returned(seen, self.now)
            turns, gap = seen.turns + 1, self.now - seen.born
        node.state = self._open(Visit(Kind.SHARED, self.now, turns, gap, node.end, node.end))

    def insert(self, node: Node, use: Use, *, continued: bool) -> None:
        """A request's own pages stand in `node`."""
        self.now += node.num_pages
        if self._guard.inserted(node):
            self.version += 1
        node.state = self._open(self._visit_of(node, self._ghost_of(node), continued))
        self.table.advance(self.now)
        self.relearn()

    def _ghost_of(self, node: Node) -> Visit | None:
        """The evicted visit that `node` brings back, if there is one."""
        ghost = self._ghosts.pop(ghost_key(node), None)
        if ghost is None or 2 * node.end < ghost.depth:
            return None
        self.table.returned(ghost, self.now)
        return ghost

    def _visit_of(self, node: Node, ghost: Visit | None, continued: bool) -> Visit:
        parent = node.parent
        assert parent is not None
        above: Visit | None = parent.state
        if above is not None and continued and above.kind in (Kind.FIRST, Kind.NEXT):
            self.table.withdraw(above)
            visit = Visit(above.kind, self.now, above.turns, above.gap, node.end, above.origin)
            parent.state = None
        elif above is not None and above.kind is Kind.AGAIN:
            self.table.withdraw(above)
            self._compare_with_cut(node, above.cut)
            visit = Visit(Kind.NEXT, self.now, above.turns + 1, above.gap, node.end, above.origin)
        elif ghost is not None and ghost.kind is not Kind.SHARED:
            gap = self.now - ghost.born
            visit = Visit(Kind.NEXT, self.now, ghost.turns + 1, gap, node.end, ghost.depth)
        else:
            visit = Visit(Kind.FIRST, self.now, 1, 0.0, node.end, node.start)
        return visit

    def _open(self, visit: Visit) -> Visit:
        self.table.open(visit, self.describe(visit), self.now)
        return visit

    def _compare_with_cut(self, node: Node, cut: Cut | None) -> None:
        """Whether a visit asks again for the pages that were trimmed of the one it continues."""
        if cut is not None and cut.depth == node.start:
            self.lost(0 if node.edge.startswith(cut.first_page) else cut.num_pages)

    def split(self, upper: Node, lower: Node) -> None:
        """`upper` took the head of `lower`'s edge."""
        upper.state = None
        self._guard.split(upper, lower)

    def can_merge(self, upper: Node, lower: Node) -> bool:
        """Where the upper half would inherit what the lower one knows."""
        above, below = upper.state, known(lower)
        return above is None or below is None or above.born <= below.born

    def merge(self, upper: Node, lower: Node) -> None:
        """`lower` took over the pages of `upper`."""
        self._guard.merge(upper, lower)
        if lower.state is None:
            lower.state = upper.state

    def inherit(self, parent: Node, child: Node) -> None:
        """The later visit is the last use of the parent."""
        own: Visit | None = parent.state
        if own is None or own.born <= child.state.born:
            parent.state = child.state

    def trim(self, node: Node, num_pages: int) -> None:
        """Remember where a visit was cut."""
        if self._guard.trimmed(node, num_pages):
            self.version += 1
        visit: Visit = node.state
        page_bytes = node.page_bytes
        start = (node.num_pages - num_pages) * page_bytes
        depth = node.end - num_pages
        visit.cut = Cut(depth, node.edge[start : start + page_bytes], visit.depth - depth)

    def remove(self, node: Node) -> None:
        """Leave a ghost."""
        key = ghost_key(node)
        if self._guard.removed(node, key):
            self.version += 1
        self._ghosts.pop(key, None)
        self._ghosts[key] = node.state
        if len(self._ghosts) > self._max_ghosts:
            self._ghosts.popitem(last=False)

    def rank(self, node: Node) -> Rank:
        """Class and time of the last visit; pages of its tail are a class of their own."""
        visit = known(node)
        assert visit is not None
        return (node.end > visit.depth - visit.tail, visit.key), visit.born

    def quota(self, node: Node) -> int:
        """The tail of a visit goes without the rest."""
        visit = known(node)
        assert visit is not None
        allowed = self._guard.quota(node)
        beyond = node.end - (visit.depth - visit.tail)
        return beyond if 0 < beyond < allowed else allowed


def known(node: Node) -> Visit | None:
    """What is known of a path that ends at `node`: its own last visit, or that of what it was split from."""
    at = node
    while at.state is None and at.children is not None:
        at = next(iter(at.children.values()))
    visit: Visit | None = at.state
    return visit
