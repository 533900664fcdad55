"""Where the cached part of waiting prompts ends, and which pages behind it are in flight."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from radixcache import CacheConfig
from radixcache.allocator import PageArray
from radixcache.misses import Anchor
from radixcache.tokens import TOKEN_BYTES
from scheduler.waiting.node import WaitNode, WaitRoot

_NOWHERE: Final = -1


class Anchors:
    """Finds the node whose cached part ends with a page, and says whose next page is in flight.

    A page stands for one prefix, so it is the end of at most one node.

    Args:
        config: Settings of the cache.

    Attributes:
        page_bytes: Bytes of a page's tokens.
        roots: Roots by the canonical bytes of their namespace; `None` for requests that read nothing.

    Complexity:
        O(1), `ends_among` O(pages) in NumPy. Keeps one byte for each page of the pool.
    """

    def __init__(self, config: CacheConfig) -> None:
        self.page_bytes = config.page_size * TOKEN_BYTES
        self.roots: dict[bytes | None, WaitRoot] = {}
        self._at_page: dict[int, WaitNode] = {}
        self._is_end = np.zeros(config.first_page + config.num_pages, dtype=np.bool_)
        self._in_flight: dict[Anchor, dict[bytes, int]] = {}

    def at(self, anchor: Anchor) -> WaitNode | None:
        """The node whose cached part ends there."""
        return self.roots.get(anchor) if isinstance(anchor, bytes) else self._at_page.get(anchor)

    def ends_among(self, pages: PageArray) -> list[int]:
        """Those of the pages, in their order, with which the cached part of some node ends."""
        is_end = self._is_end.take(pages)
        return pages[is_end].tolist() if 1 in is_end.tobytes() else []  # quicker than counting in NumPy

    def put(self, node: WaitNode, cached: int, page: int | None) -> None:
        """Say how many pages of a node's run are cached, and with which page that ends."""
        if node.page is not None:
            del self._at_page[node.page]
            self._is_end[node.page] = False
        node.cached, node.page = cached, page
        if page is not None:
            self._at_page[page] = node
            self._is_end[page] = True

    # Holds

    def hold(self, anchor: Anchor, next_page: bytes) -> bool:
        """One more running request computes this page; returns whether it is the first."""
        pages = self._in_flight.setdefault(anchor, {})
        count = pages[next_page] = pages.get(next_page, 0) + 1
        return count == 1

    def release(self, anchor: Anchor, next_page: bytes) -> bool:
        """One running request fewer computes this page; returns whether it was the last."""
        pages = self._in_flight[anchor]
        pages[next_page] -= 1
        if pages[next_page]:
            return False
        del pages[next_page]
        if not pages:
            del self._in_flight[anchor]
        return True

    def needing(self, anchor: Anchor, next_page: bytes) -> WaitNode | None:
        """The node below which all prompts need this page next."""
        node = self.at(anchor)
        if node is None:
            return None
        if node.is_full:
            child = node.children.get(next_page)
            return child if child is not None and child.is_cold else None
        return node if node.source.startswith(next_page, node.match * self.page_bytes) else None

    def is_held(self, node: WaitNode) -> bool:
        """Whether the page that the prompts below a cold or half cached run need next is in flight."""
        if not self._in_flight or node.is_full:
            return False
        pages = self._in_flight.get(self._before_uncached(node))
        if pages is None:
            return False
        return self.page_at(node, node.match) in pages

    def page_at(self, node: WaitNode, index: int) -> bytes:
        """Tokens of a page of the prefix that ends with the node, counted from the root."""
        start = index * self.page_bytes
        return node.source[start : start + self.page_bytes]

    def held(self) -> Iterator[WaitNode]:
        """All nodes that are held."""
        for anchor, pages in self._in_flight.items():
            for page in pages:
                node = self.needing(anchor, page)
                if node is not None:
                    yield node

    @staticmethod
    def _before_uncached(node: WaitNode) -> Anchor:
        """What the prefix in front of a node's first uncached page is known by."""
        above = node if node.cached else node.parent
        assert above is not None
        if above.parent is None:
            return above.root.key if above.root.key is not None else _NOWHERE
        return above.page if above.page is not None and (above is node or above.is_full) else _NOWHERE
