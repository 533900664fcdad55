"""Where every waiting prompt leaves the cache, kept up to date as the cache changes.

The prompts that wait form a radix tree of their own. The cache holds a part of it that is closed towards the
root; a *point* is a node where prompts leave that part, and all requests at a point match equally far. When
pages are published or evicted, points move along edges: whole buckets of requests at once, however many.
"""

from collections.abc import Iterator

from radixcache import Namespace, PrefixCache, Tokens
from radixcache.allocator import PageArray
from radixcache.compare import common_units
from radixcache.misses import Anchor
from radixcache.namespace import namespace_key
from radixcache.tokens import TOKEN_BYTES
from scheduler.inner_observer import InnerObserver
from scheduler.request import Request
from scheduler.waiting.anchors import Anchors
from scheduler.waiting.node import WaitNode, WaitRoot
from scheduler.waiting.order import NodeOrder


class WaitingForest(InnerObserver):
    """Waiting requests by the point where they leave the cache. An observer of the cache.

    A bucket (the requests of a point that share a next page) is *held* while a running request computes that
    page, see `hold`; held requests are not offered.

    Args:
        cache: The cache to follow; the forest is subscribed to it as long as anybody waits.
        anchors: Where it keeps the ends of what is cached, of its own.
        order: Is told of every change.

    Complexity:
        `add`: O(tokens) memcmp + O(d) steps for d nodes on the path. `remove`: O(d). A run that is published
        or evicted: O(its tokens) memcmp + O(1) for each node that moves; no work for each request. What the
        order does comes on top. At most two nodes and a few entries for each waiting request.
    """

    def __init__(self, cache: PrefixCache, anchors: Anchors, order: NodeOrder) -> None:
        self._cache = cache
        self._anchors = anchors
        self._order = order
        self._page_bytes = anchors.page_bytes
        self._node_of: dict[int, WaitNode] = {}
        self._next_uid = 0

    def __len__(self) -> int:
        return len(self._node_of)

    # Requests

    def add(self, request: Request) -> None:
        """A request begins to wait. Its number is larger than those of all that wait."""
        data = request.prompt.data
        if request.read:
            match = self._cache.peek(request.prompt, request.namespace)
            pages = match.pages.tolist()
            num_usable = (len(data) - TOKEN_BYTES) // self._page_bytes
        else:
            pages, num_usable = [], 0
        if not self._node_of:
            self._cache.subscribe(self)
        root = self._root(namespace_key(request.namespace) if request.read else None)
        node = self._insert(root, data, num_usable, pages)
        node.requests[request.number] = request
        self._node_of[request.number] = node
        self._weigh(node, 1)
        self._order.peopled(node)

    def remove(self, request: Request) -> None:
        """A waiting request was admitted or ended."""
        node = self._node_of.pop(request.number)
        del node.requests[request.number]
        self._weigh(node, -1)
        self._prune(node, request.prompt.data)
        if not self._node_of:
            self._cache.unsubscribe(self)

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

    def numbered(self, number: int) -> Request:
        """The waiting request with this number."""
        return self._node_of[number].requests[number]

    @staticmethod
    def _weigh(node: WaitNode, change: int) -> None:
        at: WaitNode | None = node
        while at is not None:
            at.weight += change
            at = at.parent

    # The tree

    def _root(self, key: bytes | None) -> WaitRoot:
        roots = self._anchors.roots
        root = roots.get(key)
        if root is None:
            root = roots[key] = WaitRoot(self._uid(), key)
        return root

    def _insert(self, root: WaitRoot, data: bytes, num_pages: int, pages: list[int]) -> WaitNode:
        """The node that ends so many pages into `data`, made if need be; `pages` are the cached ones."""
        node: WaitNode = root
        page_bytes = self._page_bytes
        while node.end < num_pages:
            at = node.end * page_bytes
            first_page = data[at : at + page_bytes]
            child = node.children.get(first_page)
            if child is None:
                return self._attach(node, first_page, data, num_pages, pages)
            stop = min(num_pages, child.end) * page_bytes
            common = common_units(data, at, stop, child.source, page_bytes, at)
            node = child if common == child.num_pages else self._split(child, common, pages)
        return node

    def _attach(
        self, parent: WaitNode, first_page: bytes, data: bytes, end: int, pages: list[int]
    ) -> WaitNode:
        node = WaitNode(self._uid(), data, end - parent.end, parent.end)
        node.root = parent.root
        node.parent, node.first_page = parent, first_page
        parent.children[first_page] = node
        if parent.is_full and len(pages) > node.start:
            self._anchors.put(node, len(pages) - node.start, pages[-1])
        return node

    def _split(self, node: WaitNode, num_pages: int, pages: list[int]) -> WaitNode:
        """Give the first pages of a run to a new node above; returns that."""
        parent = node.parent
        assert parent is not None
        upper = WaitNode(self._uid(), node.source, num_pages, node.start)
        upper.root, upper.parent, upper.weight = node.root, parent, node.weight
        upper.first_page = node.first_page
        parent.children[upper.first_page] = upper
        node.num_pages -= num_pages
        node.start += num_pages
        node.parent, node.first_page = upper, self._anchors.page_at(node, node.start)
        upper.children[node.first_page] = node
        cached, page = node.cached, node.page
        if cached > num_pages:
            node.cached -= num_pages
            self._anchors.put(upper, num_pages, pages[node.start - 1])
        elif cached:
            assert page is not None
            self._anchors.put(node, 0, None)
            self._anchors.put(upper, cached, page)
        self._order.split(upper, node)
        return upper

    def _prune(self, node: WaitNode, source: bytes) -> None:
        """Remove nodes without requests and children, merge those with one child, let go of the source."""
        while not node.requests and not node.children:
            parent = node.parent
            if parent is None:
                del self._anchors.roots[node.root.key]
                self._order.gone(node, None)
                return
            self._anchors.put(node, 0, None)
            del parent.children[node.first_page]
            node.parent = None
            self._order.gone(node, parent)
            node.source = b""  # the order may keep the node for a while
            node = parent
        if node.parent is not None and not node.requests and len(node.children) == 1:
            node = self._merge(node, next(iter(node.children.values())))
        self._replace(source, node)
        self._order.peopled(node)

    @staticmethod
    def _replace(source: bytes, node: WaitNode) -> None:
        """Give the runs from a node upwards that read a prompt which waits no longer one that does."""
        at: WaitNode | None = node
        while at is not None and at.parent is not None:
            if at.source is source:
                below = next(iter(at.requests.values()), None)
                at.source = WaitingForest._youngest_child(at).source if below is None else below.prompt.data
            at = at.parent

    @staticmethod
    def _youngest_child(node: WaitNode) -> WaitNode:
        """O(1) amortised, whoever leaves first: a dictionary is slow to find what is left behind gaps."""
        page, child = node.children.popitem()
        node.children[page] = child
        return child

    def _merge(self, upper: WaitNode, node: WaitNode) -> WaitNode:
        """Give the pages of `upper` to its only child; returns that."""
        parent = upper.parent
        assert parent is not None
        cached, page = upper.cached, upper.page
        self._anchors.put(upper, 0, None)
        upper.parent = None
        node.parent, node.first_page = parent, upper.first_page
        parent.children[node.first_page] = node
        node.num_pages += upper.num_pages
        node.start = upper.start
        if node.cached:
            node.cached += upper.num_pages
        else:
            self._anchors.put(node, cached, page)
        self._order.merged(upper, node)
        upper.source = b""
        return node

    def _uid(self) -> int:
        self._next_uid += 1
        return self._next_uid

    # What the cache does

    def published(
        self, namespace: Namespace, parent_page: int | None, new_pages: PageArray, tokens: Tokens, depth: int
    ) -> None:
        """See `CacheObserver`: the point in front of the run moves along it."""
        node = self._anchors.at(namespace_key(namespace) if parent_page is None else parent_page)
        if node is not None:
            self._advance(node, new_pages, tokens.data)

    def _advance(self, node: WaitNode, pages: PageArray, data: bytes) -> None:
        at, page_bytes = 0, self._page_bytes
        while at < len(data):
            if node.is_full:
                child = node.children.get(data[at : at + page_bytes])
                if child is None:
                    return
                node = child
            stop = at + (node.num_pages - node.cached) * page_bytes
            offset = node.match * page_bytes
            common = common_units(data, at, min(stop, len(data)), node.source, page_bytes, offset)
            if not common:
                return
            at += common * page_bytes
            self._anchors.put(node, node.cached + common, int(pages[at // page_bytes - 1]))
            self._order.moved(node)
            if not node.is_full:
                return

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        """See `CacheObserver`: points on the run fall back to what survives, the deepest first."""
        for page in reversed(self._anchors.ends_among(pages)):
            node = self._anchors.at(page)
            assert node is not None
            kept = max(0, depth - node.start)
            self._anchors.put(node, kept, surviving_parent_page if kept else None)
            self._order.moved(node)

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        """See `CacheObserver`: all points of the namespace fall back to its root."""
        key = namespace_key(namespace)
        for root in list(self._anchors.roots.values()):
            if everything or root.key == key:
                nodes = list(self._below(root))
                for node in nodes:
                    self._anchors.put(node, 0, None)
                for node in reversed(nodes):  # all are cold by now: who was held no longer is
                    self._order.moved(node)
                self._order.moved(root)

    # Holds

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """A running request computes this page: who waits for it is held."""
        if self._anchors.hold(anchor, next_page):
            self._move_those_needing(anchor, next_page)

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """One running request fewer computes this page."""
        if self._anchors.release(anchor, next_page):
            self._move_those_needing(anchor, next_page)

    def _move_those_needing(self, anchor: Anchor, next_page: bytes) -> None:
        node = self._anchors.needing(anchor, next_page)
        if node is not None:
            self._order.moved(node)

    @staticmethod
    def _below(root: WaitRoot) -> Iterator[WaitNode]:
        pending: list[WaitNode] = list(root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children.values())
