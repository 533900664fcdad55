"""Pages that wait to be copied from: they stay what they are until the copy was made."""

from array import array
from typing import NamedTuple

from radixcache.allocator import PageAllocator, PageIds
from radixcache.node import Node
from radixcache.tree import RadixTree


class PageCopy(NamedTuple):
    """An order to the engine: copy the KV of the first `num_tokens` tokens of `source` to page `target`."""

    source: int
    target: int
    num_tokens: int


class CopySource:
    """One page that `num_waiting` sequences still have to copy from.

    Attributes:
        page: Its id.
        node: The node that holds it and is locked for it; `None` while the page is private.
        num_waiting: Sequences that wait.
        orphaned: Its owner gave it back meanwhile.
    """

    __slots__ = ("node", "num_waiting", "orphaned", "page")

    def __init__(self, page: int, node: Node | None) -> None:
        self.page = page
        self.node = node
        self.num_waiting = 1
        self.orphaned = False


class CopyLedger:
    """All sources of copies that were ordered. O(1) a call while nobody forks."""

    def __init__(self, tree: RadixTree, allocator: PageAllocator) -> None:
        self._tree = tree
        self._allocator = allocator
        self._private: dict[int, CopySource] = {}

    def orphans(self) -> list[int]:
        """Pages that have no owner any more and still wait."""
        return [source.page for source in self._private.values() if source.orphaned]

    def from_sequence(self, page: int) -> CopySource:
        """Keep a private page of a live sequence."""
        source = self._private.get(page)
        if source is None:
            source = self._private[page] = CopySource(page, None)
        else:
            source.num_waiting += 1
        return source

    def from_node(self, node: Node) -> CopySource:
        """Keep the first page of a cached edge, by locking that page alone."""
        if node.num_pages > 1:
            node = self._tree.split(node, 1)
        self._tree.lock(node)
        return CopySource(node.last_page(), node)

    def settle(self, source: CopySource) -> Node | None:
        """One sequence no longer waits; returns the node that lost its lock, for the caller to unlock."""
        source.num_waiting -= 1
        if source.num_waiting:
            return None
        if source.node is None:
            del self._private[source.page]
            if source.orphaned:
                self._allocator.free_one(source.page)
        return source.node

    def num_waiting_for(self, pages: PageIds) -> int:
        """How many of these private pages somebody waits for."""
        return sum(page in self._private for page in pages) if self._private else 0

    def withhold(self, pages: PageIds) -> PageIds:
        """Private pages that are given back, without those that somebody still waits for."""
        if not self._private:
            return pages
        kept = array("i")
        for page in pages:
            source = self._private.get(page)
            if source is None:
                kept.append(page)
            else:
                source.orphaned = True
        return kept

    def published(self, node: Node, pages: PageIds) -> None:
        """Private pages that became those of `node`.

        Where somebody waits for one, the path up to that page is locked instead, and not a page more.
        """
        if not self._private:
            return
        for position in range(len(pages) - 1, -1, -1):
            source = self._private.pop(pages[position], None)
            if source is not None:
                if position + 1 < node.num_pages:
                    node = self._tree.split(node, position + 1)
                source.node = node
                self._tree.lock(node)
