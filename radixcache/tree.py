"""The radix tree: walks, splits, locks, merges and victims. It returns pages and never frees any."""

from collections import OrderedDict
from itertools import count, islice
from typing import Final, NamedTuple

from radixcache.agreement import AgreementIndex
from radixcache.compare import common_units
from radixcache.errors import InvalidConfig
from radixcache.eviction import EvictionPolicy
from radixcache.misses import Anchor
from radixcache.namespace import Namespace
from radixcache.node import PAGE_ID_BYTES, Node, Root

_MAX_ELSEWHERE: Final = 4


class Walk(NamedTuple):
    """How far a walk came.

    Attributes:
        node: The deepest node whose whole edge was matched.
        at: Position in the data behind the last matched page of that node. Unit: bytes.
        child: A child of `node` whose edge was matched in part; `None` if there is none.
        child_pages: Pages of `child` that were matched, at least one and fewer than it has.
        pages: Page ids of every matched page in order, as pieces of little-endian int32.
    """

    node: Node
    at: int
    child: Node | None
    child_pages: int
    pages: list[bytes]


class Victim(NamedTuple):
    """A run of pages that went from the tail of a branch.

    Attributes:
        root: The root of its tree.
        anchor: What survives in front of it.
        depth: Pages in front of it.
        pages: Its page ids as little-endian int32.
        first_page: Tokens of its first page.
    """

    root: Root
    anchor: Anchor
    depth: int
    pages: bytes
    first_page: bytes


class RadixTree:
    """Token sequences to pages, one root for each namespace, one eviction order for all.

    Complexity:
        See each method; d is the number of nodes on a path, n the number of evictable leaves.
    """

    def __init__(self, page_bytes: int, policy: EvictionPolicy, *, with_agreement: bool) -> None:
        self.page_bytes = page_bytes
        self.policy = policy
        self.order = policy.make_order()
        self.roots: dict[bytes, Root] = {}
        self.retired: dict[int, Root] = {}
        self.num_nodes = 0
        self.num_pages = 0
        self.num_locked_pages = 0
        self._with_agreement = with_agreement
        self._first_pages: dict[bytes, Root | OrderedDict[Root, None]] = {}
        """Who holds a first page: one root, as a rule, or several, oldest first."""
        self._numbers = count(1)

    # Reading

    def walk(self, node: Node, data: bytes, at: int, limit: int) -> Walk:
        """Go down from `node` along `data[at:limit]`. Changes nothing but the hints `hot`.

        Args:
            node: Where to start.
            data: Tokens as little-endian int32.
            at: Where the tokens behind `node` begin. Unit: bytes.
            limit: Where to stop; a whole number of pages behind `at`.

        Complexity:
            O(d) Python steps + O(limit - at) memcmp.
        """
        pages: list[bytes] = []
        page_bytes = self.page_bytes
        while at < limit:
            child = node.hot
            if child is None or not data.startswith(child.edge, at):
                children = node.children
                if children is None:
                    break
                child = children.get(data[at : at + page_bytes])
                if child is None:
                    break
                node.hot = child
                if not data.startswith(child.edge, at):
                    return self._stop_within(child, data, at, limit, pages)
            end = at + len(child.edge)
            if end > limit:
                return self._stop_within(child, data, at, limit, pages)
            pages.append(child.pages)
            node, at = child, end
        if node.slack and pages:
            at -= node.slack * page_bytes
            pages[-1] = node.live_pages()
        return Walk(node, at, None, 0, pages)

    def _stop_within(self, child: Node, data: bytes, at: int, limit: int, pages: list[bytes]) -> Walk:
        common = min(common_units(data, at, limit, child.edge, self.page_bytes), child.num_pages)
        assert child.parent is not None
        if not common:
            return Walk(child.parent, at, None, 0, pages)
        pages.append(child.pages[: common * PAGE_ID_BYTES])
        if common == child.num_pages:
            return Walk(child, at + common * self.page_bytes, None, 0, pages)
        return Walk(child.parent, at, child, common, pages)

    @staticmethod
    def anchor(node: Node) -> Anchor:
        """What a prefix that ends at `node` is known by: its deepest page, or the namespace of a root."""
        return node.root.key if node.parent is None else node.last_page()

    def cached_elsewhere(self, root: Root, data: bytes, at: int) -> bool:
        """Whether another namespace caches `data` up to and with the page at `at`.

        Asks the `_MAX_ELSEWHERE` oldest namespaces that hold the first page of `data`.
        """
        if len(self.roots) < 2:
            return False
        end = at + self.page_bytes
        holders = self._first_pages.get(data[: self.page_bytes], ())
        others = (holders,) if isinstance(holders, Root) else holders
        asked = islice((other for other in others if other is not root), _MAX_ELSEWHERE)
        return any(at == 0 or self._covers(other, data, end) for other in asked)

    def _covers(self, root: Root, data: bytes, end: int) -> bool:
        walk = self.walk(root, data, 0, end)
        return walk.at + walk.child_pages * self.page_bytes >= end

    def unlocked_pages(self, low: Node, high: Node) -> int:
        """Pages from `low` up to `high`, exclusive, that nobody holds. O(d)."""
        num_pages, node = 0, low
        while node is not high and not node.lock_count:
            num_pages += node.num_pages
            assert node.parent is not None
            node = node.parent
        return num_pages

    def pages_held_by(self, node: Node) -> int:
        """Pages that would become evictable if one holder left `node`. O(d)."""
        num_pages, at = 0, node
        while at.parent is not None and at.lock_count == 1:
            num_pages += at.num_pages
            at = at.parent
        return num_pages

    # Growing

    def root(self, key: bytes, namespace: Namespace) -> Root:
        """The root of a namespace, made if there is none."""
        root = self.roots.get(key)
        if root is None:
            root = self.roots[key] = Root(next(self._numbers), namespace, key)
        return root

    def attach(self, parent: Node, edge: bytes, pages: bytes) -> Node:
        """Add a leaf below `parent`, unlocked and not yet in the eviction order.

        The caller locks it or calls `release`.
        """
        leaf = Node(next(self._numbers), edge, pages, parent.start + parent.num_pages)
        leaf.root = parent.root
        if parent.slack:
            parent.settle()
        if parent.entry is not None:
            self.order.discard(parent)
        self._link(parent, leaf)
        self.num_nodes += 1
        self.num_pages += leaf.num_pages
        return leaf

    def split(self, node: Node, num_pages: int) -> Node:
        """Give the first `num_pages` pages of the edge to a new node above; returns that.

        Holders keep the lower half. O(length of the edge) memcpy.
        """
        node.settle()
        parent = node.parent
        assert parent is not None
        assert 0 < num_pages < node.num_pages
        edge_cut, pages_cut = num_pages * self.page_bytes, num_pages * PAGE_ID_BYTES
        upper = Node(next(self._numbers), node.edge[:edge_cut], node.pages[:pages_cut], node.start)
        upper.root = node.root
        upper.lock_count = 1 if node.lock_count else 0
        self._unlink(parent, node, node.edge[: self.page_bytes])
        node.edge, node.pages = node.edge[edge_cut:], node.pages[pages_cut:]
        node.num_pages -= num_pages
        node.start += num_pages
        self._link(parent, upper)
        self._link(upper, node)
        self.num_nodes += 1
        self.policy.split(upper, node)
        self.order.update(node)
        return upper

    # Locks

    def move_lock(self, old: Node, new: Node) -> None:
        """A holder goes from `old` down to `new`. Merges nothing, so that publishing chunks stays linear."""
        if new is not old:
            self.lock(new)
            old.lock_count -= 1

    def lock(self, node: Node) -> None:
        """One more holder at `node`. O(1) where the node is locked already, O(d) at worst."""
        at: Node | None = node
        while at is not None:
            count = at.lock_count
            at.lock_count = count + 1
            if count:
                return
            self.num_locked_pages += at.num_pages
            if at.entry is not None:
                self.order.discard(at)
            at = at.parent

    def unlock(self, node: Node) -> None:
        """One holder fewer at `node`; what this leaves idle is merged. Costs as `lock`."""
        at: Node | None = node
        while at is not None:
            at.lock_count -= 1
            if at.lock_count:
                break
            self.num_locked_pages -= at.num_pages
            if at.children is None and at.parent is not None:
                self.order.add(at)
            at = at.parent
        if node.parent is not None:
            self.collapse(node)
        if at is not node and at is not None and at.parent is not None:
            self.collapse(at)  # a use that went deeper may have been all that its ancestors waited for

    # Shrinking

    def evict(self, num_pages: int, victims: list[Victim]) -> None:
        """Drop exactly `num_pages` pages, or all that are evictable if they are fewer.

        The least valuable leaf goes first; the last victim is trimmed at its tail.

        Args:
            num_pages: How many.
            victims: Takes the runs that went, in order; a branch's children before their parents. The caller
                owns the pages, also those of the runs before an error.

        Raises:
            InvalidConfig: The policy lets no page go of the leaf it ranks first. That leaf is still there.

        Complexity:
            O(k log n) for k victims.
        """
        while num_pages > 0:
            node = self.order.first()
            if node is None:
                break
            quota = min(self.policy.quota(node), num_pages)
            if quota < node.num_pages:
                if quota < 1:
                    raise InvalidConfig(f"{type(self.policy).__name__}.quota is at least 1, got {quota}")
                victims.append(self._trim(node, quota))
            else:
                self.order.pop_first()
                victims.append(self._remove(node))
            num_pages -= quota

    def _trim(self, node: Node, num_pages: int) -> Victim:
        kept = node.num_pages - num_pages
        self.policy.trim(node, num_pages)
        start, end = kept * PAGE_ID_BYTES, node.num_pages * PAGE_ID_BYTES
        pages = node.pages[start:end]
        anchor = int.from_bytes(node.pages[start - PAGE_ID_BYTES : start], "little")
        first_page = node.edge[kept * self.page_bytes : (kept + 1) * self.page_bytes]
        node.num_pages = kept
        node.slack += num_pages
        if node.slack > kept:
            node.settle()
        self.num_pages -= num_pages
        self.order.update(node)
        return Victim(node.root, anchor, node.start + kept, pages, first_page)

    def _remove(self, node: Node) -> Victim:
        """Take an idle leaf out of the tree, which has left the eviction order."""
        parent, root, policy = node.parent, node.root, self.policy
        assert parent is not None
        assert node.children is None
        assert not node.lock_count
        first_page = node.edge[: self.page_bytes]
        below_root = parent is root
        if not below_root:
            policy.inherit(parent, node)
        policy.remove(node)
        self._unlink(parent, node, first_page)
        node.parent = None
        self.num_nodes -= 1
        self.num_pages -= node.num_pages
        anchor = root.key if below_root else parent.last_page()
        victim = Victim(root, anchor, node.start, node.live_pages(), first_page)
        if not below_root:
            if parent.children is None and not parent.lock_count:
                self.order.add(parent)
            self.collapse(parent)
        elif parent.children is None:
            self.drop_if_idle(root)
        return victim

    def drop_if_idle(self, root: Root) -> None:
        """Forget a root that holds nothing and is held by nobody."""
        if root.children is None and not root.lock_count:
            if root.retired:
                self.retired.pop(root.number, None)
            elif self.roots.get(root.key) is root:
                del self.roots[root.key]

    def retire(self, root: Root) -> list[Victim]:
        """Close a namespace: unlocked pages go now, locked ones with `sweep` as their holders leave.

        Complexity:
            O(nodes of the namespace * log n).
        """
        root.retired = True
        del self.roots[root.key]
        for first_page in root.children or ():
            self._leave_first_page(first_page, root)
        self.retired[root.number] = root
        leaves = [node for node in self.nodes(root) if node.entry is not None]
        victims = [victim for leaf in leaves for victim in self.sweep(leaf)]
        self.drop_if_idle(root)
        return victims

    def sweep(self, node: Node) -> list[Victim]:
        """Remove `node` and what becomes an evictable leaf above it, of a retired root."""
        victims = []
        while node.entry is not None:
            parent = node.parent
            assert parent is not None
            self.order.discard(node)
            victims.append(self._remove(node))
            node = parent
        return victims

    # Merging

    def collapse(self, node: Node) -> None:
        """Merge the run of idle single-child nodes that `node` is part of.

        The deepest node of the run takes all pages and stays, as holders may stand there.

        Complexity:
            O(nodes merged) + O(length of the merged edge) memcpy; O(1) where nothing is to merge.
        """
        low = node
        if node.children is not None and len(node.children) == 1:
            child = next(iter(node.children.values()))
            if self._can_merge(node, child):
                low = child
        run = []
        upper = low.parent
        while upper is not None and self._can_merge(upper, low):
            self.policy.merge(upper, low)
            run.append(upper)
            upper = upper.parent
        if run:
            self._absorb(low, run)

    def _can_merge(self, upper: Node, low: Node) -> bool:
        return (
            upper.parent is not None
            and upper.children is not None
            and len(upper.children) == 1
            and upper.lock_count == (1 if low.lock_count else 0)  # no holder of its own
            and self.policy.can_merge(upper, low)
        )

    def _absorb(self, low: Node, run: list[Node]) -> None:
        top = run[-1]
        parent, lowest = top.parent, run[0]
        assert parent is not None
        self._unlink(parent, top, top.edge[: self.page_bytes])
        self._unlink(lowest, low, low.edge[: self.page_bytes])
        run.reverse()
        low.settle()
        low.edge = b"".join([*(upper.edge for upper in run), low.edge])
        low.pages = b"".join([*(upper.pages for upper in run), low.pages])
        low.num_pages = len(low.pages) // PAGE_ID_BYTES
        low.start = top.start
        for upper in run:
            upper.parent = None
        self._link(parent, low)
        self.num_nodes -= len(run)
        self.order.update(low)

    # Links

    def _link(self, parent: Node, child: Node) -> None:
        if parent.children is None:
            parent.children = {}
        first_page = child.edge[: self.page_bytes]
        parent.children[first_page] = child
        parent.hot = child
        child.parent = parent
        if isinstance(parent, Root) and not parent.retired:
            self._enter_first_page(first_page, parent)
        if self._with_agreement:
            if parent.agreement is None:
                parent.agreement = AgreementIndex()
            parent.agreement.add(child)

    def _unlink(self, parent: Node, child: Node, first_page: bytes) -> None:
        children = parent.children
        assert children is not None
        del children[first_page]
        if parent.hot is child:
            parent.hot = None
        if isinstance(parent, Root):
            self._leave_first_page(first_page, parent)
        if parent.agreement is not None:
            parent.agreement.remove(child)
        if not children:
            parent.children = parent.agreement = None

    def _enter_first_page(self, first_page: bytes, root: Root) -> None:
        holders = self._first_pages.setdefault(first_page, root)
        if isinstance(holders, OrderedDict):
            holders[root] = None
        elif holders is not root:
            self._first_pages[first_page] = OrderedDict.fromkeys((holders, root))

    def _leave_first_page(self, first_page: bytes, root: Root) -> None:
        holders = self._first_pages.get(first_page)
        if isinstance(holders, OrderedDict):
            holders.pop(root, None)
            if len(holders) == 1:
                self._first_pages[first_page] = next(iter(holders))
        elif holders is root:
            del self._first_pages[first_page]

    # Walking everything

    def all_roots(self) -> list[Root]:
        """Every root, retired ones last."""
        return [*self.roots.values(), *self.retired.values()]

    @staticmethod
    def nodes(root: Root) -> list[Node]:
        """Every node below `root`, parents before children. O(nodes), no recursion."""
        found: list[Node] = []
        pending: list[Node] = list(root.children.values()) if root.children else []
        while pending:
            node = pending.pop()
            found.append(node)
            if node.children:
                pending.extend(node.children.values())
        return found
