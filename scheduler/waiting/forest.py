"""Where every waiting prompt leaves the cache, kept up to date as the cache changes.

The prompts that wait form a radix tree of their own. The cache holds a part of it that is closed towards the
root; a *point* is a node where prompts leave that part, and all requests at a point match equally far. When
pages are published or evicted, points move along edges: whole buckets of requests at once, however many.
"""

import heapq
from collections.abc import Iterator

from radixcache import Namespace, PrefixCache, Tokens
from radixcache.allocator import PageArray
from radixcache.compare import common_units
from radixcache.namespace import namespace_key
from radixcache.tokens import TOKEN_BYTES
from scheduler.request import Request
from scheduler.waiting.choice import Choice
from scheduler.waiting.node import NOBODY, ColdEntry, WaitNode, WaitRoot
from scheduler.waiting.points import Points

Anchor = int | bytes
"""The page a prefix ends with, or the key of its namespace where it has none."""


class WaitingForest:
    """Waiting requests by the point where they leave the cache. An observer of the cache.

    A bucket (the requests of a point that share a next page) is *held* while a running request computes that
    page, see `hold`; held requests are not offered.

    Args:
        cache: The cache to follow; the forest subscribes itself.
        points: Where to keep the points, so that the best can be found.
        choice: Which requests of a point come first.

    Complexity:
        `add`: O(tokens) memcmp + O(d) steps for d nodes on the path. `remove`: O(d + log waiting). A run that
        is published or evicted: O(its tokens) memcmp + O(log waiting) for each point that moves; no work for
        each request. At most two nodes and a few entries for each waiting request.
    """

    def __init__(self, cache: PrefixCache, points: Points, choice: Choice) -> None:
        self._cache = cache
        self._points = points
        self._choice = choice
        self._page_bytes = cache.config.page_size * TOKEN_BYTES
        self._roots: dict[tuple[str | None, bytes | None], WaitRoot] = {}
        self._at_key: dict[bytes, dict[WaitNode, None]] = {}
        self._at_page: dict[int, dict[WaitNode, None]] = {}
        self._node_of: dict[int, WaitNode] = {}
        self._in_flight: dict[tuple[Anchor, bytes], int] = {}
        self._next_uid = 0
        cache.subscribe(self)

    def __len__(self) -> int:
        return len(self._node_of)

    # Requests

    def add(self, request: Request, group: str | None = None) -> None:
        """A request begins to wait. Its number is larger than those of all that wait."""
        data = request.prompt.data
        key = namespace_key(request.namespace) if request.read else None
        root = self._root(group, key)
        if request.read:
            match = self._cache.peek(request.prompt, request.namespace)
            pages = match.pages.tolist()
            usable = (len(data) - TOKEN_BYTES) // self._page_bytes * self._page_bytes
        else:
            pages, usable = [], 0
        node = self._insert(root, data[:usable], pages)
        node.requests[request.number] = request
        self._node_of[request.number] = node
        self._weigh(node, 1)
        self._refresh(node, weighed=self._choice.weighs)

    def remove(self, request: Request) -> None:
        """A waiting request was admitted or ended."""
        node = self._node_of.pop(request.number)
        del node.requests[request.number]
        self._weigh(node, -1)
        self._refresh(node, weighed=self._choice.weighs)
        self._prune(node)

    def matched_pages(self, request: Request) -> int:
        """Pages of a waiting request's prompt that are cached. O(d)."""
        node: WaitNode = self._node_of[request.number]
        while node.is_cold:
            assert node.parent is not None
            node = node.parent
        return node.match

    def node_of(self, request: Request) -> WaitNode:
        """Where a waiting request's prompt ends; the same as long as it waits."""
        return self._node_of[request.number]

    def request_at(self, node: WaitNode) -> Request:
        """The best request of a point."""
        return self._node_of[node.best].requests[node.best]

    @staticmethod
    def _weigh(node: WaitNode, change: int) -> None:
        at: WaitNode | None = node
        while at is not None:
            at.weight += change
            at = at.parent

    def _root(self, group: str | None, key: bytes | None) -> WaitRoot:
        root = self._roots.get((group, key))
        if root is None:
            root = self._roots[group, key] = WaitRoot(self._uid(), group, key)
            if key is not None:
                self._at_key.setdefault(key, {})[root] = None
        return root

    def _insert(self, root: WaitRoot, data: bytes, pages: list[int]) -> WaitNode:
        """The node that ends with `data`, made if need be; `pages` are the cached pages of its prefix."""
        node: WaitNode = root
        at = 0
        while at < len(data):
            child = node.children.get(data[at : at + self._page_bytes])
            if child is None:
                return self._attach(node, data[at:], pages)
            common = common_units(data, at, len(data), child.edge, self._page_bytes)
            if common < child.num_pages:
                child = self._split(child, common, pages)
            node, at = child, at + common * self._page_bytes
        return node

    def _attach(self, parent: WaitNode, edge: bytes, pages: list[int]) -> WaitNode:
        node = WaitNode(self._uid(), edge, len(edge) // self._page_bytes, parent.start + parent.num_pages)
        node.root = parent.root
        node.parent = parent
        parent.children[edge[: self._page_bytes]] = node
        if parent.is_full and len(pages) > node.start:
            self._put(node, len(pages) - node.start, pages[-1])
        return node

    def _split(self, node: WaitNode, num_pages: int, pages: list[int]) -> WaitNode:
        """Give the first pages of a run to a new node above; returns that."""
        parent, cut = node.parent, num_pages * self._page_bytes
        assert parent is not None
        upper = WaitNode(self._uid(), node.edge[:cut], num_pages, node.start)
        upper.root, upper.parent, upper.weight = node.root, parent, node.weight
        parent.children[node.edge[: self._page_bytes]] = upper
        node.edge = node.edge[cut:]
        node.num_pages -= num_pages
        node.start += num_pages
        node.parent = upper
        upper.children[node.edge[: self._page_bytes]] = node
        cached, page = node.cached, node.page
        if cached > num_pages:
            node.cached -= num_pages
            self._put(upper, num_pages, pages[node.start - 1])
        elif cached:
            assert page is not None
            self._put(node, 0, None)
            self._put(upper, cached, page)
        self._refresh(node)
        self._refresh(upper)
        return upper

    def _prune(self, node: WaitNode) -> None:
        """Remove nodes without requests and children, and merge those with one child."""
        while node.parent is not None and not node.requests and not node.children:
            parent = node.parent
            self._put(node, 0, None)
            self._points.forget(node)
            del parent.children[node.edge[: self._page_bytes]]
            node.parent = None
            self._trim(parent)
            self._refresh(parent)
            node = parent
        if node.parent is None:
            self._drop_root_if_empty(node.root)
        elif not node.requests and len(node.children) == 1:
            self._merge(node, next(iter(node.children.values())))

    def _merge(self, upper: WaitNode, node: WaitNode) -> None:
        """Give the pages of `upper` to its only child."""
        parent = upper.parent
        assert parent is not None
        cached, page = upper.cached, upper.page
        self._put(upper, 0, None)
        self._points.forget(upper)
        upper.parent = None
        node.parent = parent
        parent.children[upper.edge[: self._page_bytes]] = node
        node.edge = upper.edge + node.edge
        node.num_pages += upper.num_pages
        node.start = upper.start
        if node.cached:
            node.cached += upper.num_pages
        else:
            self._put(node, cached, page)
        self._refresh(node)

    def _drop_root_if_empty(self, root: WaitRoot) -> None:
        if root.requests or root.children:
            return
        self._points.forget(root)
        del self._roots[root.group, root.key]
        if root.key is not None:
            roots = self._at_key[root.key]
            del roots[root]
            if not roots:
                del self._at_key[root.key]

    def _uid(self) -> int:
        self._next_uid += 1
        return self._next_uid

    # What the cache does

    def published(
        self, namespace: Namespace, parent_page: int | None, new_pages: PageArray, tokens: Tokens, depth: int
    ) -> None:
        """See `CacheObserver`: points in front of the run move along it."""
        for node in self._nodes_at(namespace_key(namespace) if parent_page is None else parent_page):
            self._advance(node, new_pages, tokens.data)

    def _advance(self, node: WaitNode, pages: PageArray, data: bytes) -> None:
        at, page_bytes = 0, self._page_bytes
        while at < len(data):
            if node.is_full:
                child = node.children.get(data[at : at + page_bytes])
                if child is None:
                    return
                node = child
            rest = node.edge[node.cached * page_bytes :]
            common = common_units(data, at, len(data), rest, page_bytes)
            if not common:
                return
            at += common * page_bytes
            was_cold = node.is_cold
            self._put(node, node.cached + common, int(pages[at // page_bytes - 1]))
            self._refresh(node)
            if was_cold and node.parent is not None:
                self._refresh(node.parent)
            if not node.is_full:
                return

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        """See `CacheObserver`: points on the run fall back to what survives."""
        at_page = self._at_page
        listed = pages.tolist()
        if at_page.keys().isdisjoint(listed):
            return
        for page in reversed(listed):
            if page in at_page:
                for node in list(at_page[page]):
                    kept = max(0, depth - node.start)
                    self._put(node, kept, surviving_parent_page if kept else None)
                    self._refresh(node)

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        """See `CacheObserver`: all points of the namespace fall back to its roots."""
        key = namespace_key(namespace)
        for root in list(self._roots.values()):
            if everything or root.key == key:
                nodes = list(self._below(root))
                for node in nodes:
                    self._put(node, 0, None)
                for node in reversed(nodes):  # all are cold by now: who was held no longer is
                    self._refresh(node)
                self._refresh(root)

    def _nodes_at(self, anchor: Anchor) -> list[WaitNode]:
        """Nodes whose cached part ends there."""
        return list(
            self._at_key.get(anchor, ()) if isinstance(anchor, bytes) else self._at_page.get(anchor, ())
        )

    def _put(self, node: WaitNode, cached: int, page: int | None) -> None:
        """Say how much of a node's run is cached, and with which page that ends."""
        if node.page is not None:
            nodes = self._at_page[node.page]
            del nodes[node]
            if not nodes:
                del self._at_page[node.page]
        node.cached, node.page = cached, page
        if page is not None:
            self._at_page.setdefault(page, {})[node] = None

    # Holds

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """A running request computes this page: who waits for it is held."""
        key = (anchor, next_page)
        self._in_flight[key] = self._in_flight.get(key, 0) + 1
        self._recheck(anchor, next_page)

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """One running request fewer computes this page."""
        key = (anchor, next_page)
        self._in_flight[key] -= 1
        if not self._in_flight[key]:
            del self._in_flight[key]
            self._recheck(anchor, next_page)

    def _recheck(self, anchor: Anchor, next_page: bytes) -> None:
        for node in self._nodes_at(anchor):
            if not node.is_full:
                self._refresh(node)
            elif (child := node.children.get(next_page)) is not None:
                self._refresh(child)

    def is_held(self, node: WaitNode) -> bool:
        """Whether the page that the prompts below a cold or half cached run need next is in flight."""
        if not self._in_flight or node.is_full:
            return False
        start = node.cached * self._page_bytes
        next_page = node.edge[start : start + self._page_bytes]
        return (self._anchor(node), next_page) in self._in_flight

    def _anchor(self, node: WaitNode) -> Anchor:
        """What the prefix in front of a node's first uncached page is known by; -1 if that is not cached."""
        above = node if node.cached else node.parent
        assert above is not None
        if above.parent is None:
            return above.root.key if above.root.key is not None else -1
        return above.page if above.page is not None and (above is node or above.is_full) else -1

    # Points

    def _refresh(self, node: WaitNode, *, weighed: bool = False) -> None:
        """Bring the best request of a node up to date, and of those above it as far as it changes them."""
        at: WaitNode | None = node
        while at is not None:
            top = self._cold_top(at)
            at.best = self._choice.best(at, None if top is None else top[2])
            offered = at.best != NOBODY and not self.is_held(at)
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
            child.parent is parent
            and child.is_cold
            and child.rank == rank
            and child.best != NOBODY
            and not self.is_held(child)
        )

    def _trim(self, node: WaitNode) -> None:
        """Rebuild a heap most of whose entries are out of date or doubled."""
        if len(node.cold) > 2 * len(node.children) + 8:
            node.cold = [
                (child.rank, child.uid, child)
                for child in node.children.values()
                if child.is_cold and child.best != NOBODY and not self.is_held(child)
            ]
            heapq.heapify(node.cold)

    def _below(self, root: WaitRoot) -> Iterator[WaitNode]:
        pending: list[WaitNode] = list(root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children.values())
