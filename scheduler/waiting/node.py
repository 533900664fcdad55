"""Nodes of the tree of waiting prompts."""

from collections import OrderedDict
from typing import Final, TypeAlias

from scheduler.request import Request

NOBODY: Final = -1
"""Number of the best request where there is none."""

Rank: TypeAlias = tuple[int, ...]
ColdEntry: TypeAlias = tuple[Rank, int, "WaitNode"]


class WaitNode:
    """A run of pages that waiting prompts share, and the requests whose prompts end with it.

    Attributes:
        uid: Order of creation; breaks ties in heaps.
        source: A waiting prompt that goes through the run, from its first token, as bytes; empty at a root.
        num_pages: Pages of the run; 0 at a root.
        start: Pages above the run.
        parent: Node above; `None` at a root and at a node that left the tree.
        root: The root of its tree.
        children: By the bytes of their first page.
        requests: Requests that end here, by number, oldest first.
        cached: Leading pages of the run that the cache holds. Children have none unless it holds all.
        page: Id of the last of those pages; `None` where there is none.
        weight: Requests here and below.
        best: Number of the request to take first of those that stand here or in a cold child not held.
        rank: What the parent compares this node by, while it is cold.
        cold: Heap of cold children by rank; entries may be out of date.
    """

    __slots__ = (
        "best",
        "cached",
        "children",
        "cold",
        "num_pages",
        "page",
        "parent",
        "rank",
        "requests",
        "root",
        "source",
        "start",
        "uid",
        "weight",
    )

    def __init__(self, uid: int, source: bytes, num_pages: int, start: int) -> None:
        self.uid = uid
        self.source = source
        self.num_pages = num_pages
        self.start = start
        self.parent: WaitNode | None = None
        self.root: WaitRoot
        self.children: dict[bytes, WaitNode] = {}
        self.requests: OrderedDict[int, Request] = OrderedDict()
        self.cached = 0
        self.page: int | None = None
        self.weight = 0
        self.best = NOBODY
        self.rank: Rank = (NOBODY,)
        self.cold: list[ColdEntry] = []

    @property
    def is_full(self) -> bool:
        """Whether the cache holds the whole run."""
        return self.cached == self.num_pages

    @property
    def is_cold(self) -> bool:
        """Whether the cache holds no page of the run; a root is never cold."""
        return not self.cached and self.num_pages > 0

    @property
    def end(self) -> int:
        """Pages of the prefix, from the root, with the run."""
        return self.start + self.num_pages

    @property
    def match(self) -> int:
        """Pages of the prefix, from the root, that the cache holds."""
        return self.start + self.cached


class WaitRoot(WaitNode):
    """Where the prompts of one namespace begin.

    Attributes:
        key: Canonical bytes of the namespace; `None` for requests that read nothing.
    """

    __slots__ = ("key",)

    def __init__(self, uid: int, key: bytes | None) -> None:
        super().__init__(uid, b"", 0, 0)
        self.root = self
        self.key = key
