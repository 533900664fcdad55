"""Nodes of the tree of waiting prompts."""

from collections import OrderedDict
from typing import Any, Final, TypeAlias

from scheduler.request import Request

NOBODY: Final = -1
"""Number of the best request where there is none."""

Rank: TypeAlias = tuple[int, ...]
Entry: TypeAlias = tuple[Any, ...]
"""What a heap holds of a node: its rank, its uid, and itself. Flat, as nested tuples compare slowly."""


class WaitNode:
    """A run of pages that waiting prompts share, and the requests whose prompts end with it.

    Attributes:
        uid: Order of creation; breaks ties in heaps.
        source: A waiting prompt that goes through the run, from its first token, as bytes; empty at a root.
        num_pages: Pages of the run; 0 at a root.
        start: Pages above the run.
        parent: Node above; `None` at a root and at a node that left the tree.
        root: The root of its tree.
        first_page: Tokens of the first page of the run, which the parent knows it by; empty at a root.
        children: By their first pages.
        requests: Requests that end here, by number, oldest first.
        cached: Leading pages of the run that the cache holds. Children have none unless it holds all.
        page: Id of the last of those pages; `None` where there is none.
        weight: Requests here and below.
        best: Number of the request to take first of those that stand here or in a cold child not held.
        entry: What the parent's heap holds of it; `None` unless it is cold and has somebody to offer.
        cold: Heap of the entries of children, and of some that are out of date.
    """

    __slots__ = (
        "best",
        "cached",
        "children",
        "cold",
        "entry",
        "first_page",
        "num_pages",
        "page",
        "parent",
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
        self.first_page = b""
        self.children: dict[bytes, WaitNode] = {}
        self.requests: OrderedDict[int, Request] = OrderedDict()
        self.cached = 0
        self.page: int | None = None
        self.weight = 0
        self.best = NOBODY
        self.entry: Entry | None = None
        self.cold: list[Entry] = []

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
