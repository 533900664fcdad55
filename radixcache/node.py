"""Nodes of the radix tree. They know their edge, their neighbours and their lock; no policy, no pool."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from radixcache.agreement import AgreementIndex

PAGE_ID_BYTES: Final = 4


class Node:
    """One edge of the tree with the node at its end. Edges hold whole pages.

    Attributes:
        edge: Token bytes of the edge; its first `num_pages` pages count, up to `slack` more are leftovers.
        pages: Page ids of the edge as little-endian int32, leftovers as in `edge`.
        num_pages: Pages on the edge. Unit: pages.
        slack: Pages cut off the tail whose bytes have not been dropped yet; only a leaf has any.
        start: Depth at which the edge begins, in pages from the root.
        root: The root of its tree; of a root, itself.
        parent: Node above; `None` at a root and at a node that left the tree.
        children: By the bytes of their first page; `None` at a leaf.
        hot: The child walked last, tried before the dictionary.
        lock_count: Locked children plus own holders.
        stamp: Logical time, for the eviction policy.
        state: Whatever else the eviction policy keeps here.
        number: Order of creation; breaks ties.
        entry: Its place in the eviction order; `None` while not evictable.
        agreement: Index of the children for partial-page reuse; `None` where that is off or unused.
    """

    __slots__ = (
        "agreement",
        "children",
        "edge",
        "entry",
        "hot",
        "lock_count",
        "num_pages",
        "number",
        "pages",
        "parent",
        "root",
        "slack",
        "stamp",
        "start",
        "state",
    )

    root: "Root"

    def __init__(self, number: int, edge: bytes, pages: bytes, start: int) -> None:
        self.number = number
        self.edge = edge
        self.pages = pages
        self.num_pages = len(pages) // PAGE_ID_BYTES
        self.slack = 0
        self.start = start
        self.parent: Node | None = None
        self.children: dict[bytes, Node] | None = None
        self.hot: Node | None = None
        self.lock_count = 0
        self.stamp = 0
        self.state: Any = None
        self.entry: tuple[Any, int, Node] | None = None
        self.agreement: AgreementIndex | None = None

    @property
    def end(self) -> int:
        """Depth of the node, in pages from the root."""
        return self.start + self.num_pages

    @property
    def page_bytes(self) -> int:
        """Token bytes of a page. Not for roots, which have none."""
        return len(self.edge) // (self.num_pages + self.slack)

    def live_edge(self) -> bytes:
        """Token bytes of the edge without leftovers."""
        return self.edge[: self.num_pages * self.page_bytes] if self.slack else self.edge

    def live_pages(self) -> bytes:
        """Page ids of the edge without leftovers, as little-endian int32."""
        return self.pages[: self.num_pages * PAGE_ID_BYTES] if self.slack else self.pages

    def settle(self) -> None:
        """Drop the leftovers."""
        if self.slack:
            self.edge, self.pages, self.slack = self.live_edge(), self.live_pages(), 0

    def last_page(self) -> int:
        """Id of the deepest page on the edge. Not for roots, which have none."""
        end = self.num_pages * PAGE_ID_BYTES
        return int.from_bytes(self.pages[end - PAGE_ID_BYTES : end], "little")


class Root(Node):
    """Where the tree of one namespace begins. Holds no page.

    Attributes:
        namespace: The namespace as its user gave it.
        key: Its canonical bytes.
        retired: No new sequence comes here; what is unlocked goes at once.
    """

    __slots__ = ("key", "namespace", "retired")

    def __init__(self, number: int, namespace: Any, key: bytes) -> None:
        super().__init__(number, b"", b"", 0)
        self.root = self
        self.namespace = namespace
        self.key = key
        self.retired = False
