"""What all sequences of a cache share, and the few operations that need several of its parts at once."""

from array import array
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from radixcache.allocator import PageAllocator, PageIds
from radixcache.config import CacheConfig
from radixcache.copies import CopyLedger, CopySource
from radixcache.errors import OutOfPages
from radixcache.events import CacheObserver
from radixcache.misses import Anchor, GhostTable, InFlight
from radixcache.namespace import Namespace
from radixcache.node import PAGE_ID_BYTES, Node, Root
from radixcache.observer_errors import ObserverErrors
from radixcache.stats import Counters, PageCounts
from radixcache.tokens import TOKEN_BYTES, Tokens
from radixcache.tree import RadixTree, Victim

if TYPE_CHECKING:
    from radixcache.sequence import Sequence


class CacheState:
    """Tree, pool, records and counters of one cache. The tree decides which pages go, this frees them."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.page_size = config.page_size
        self.page_bytes = config.page_size * TOKEN_BYTES
        self.counters = Counters()
        self.observers: tuple[CacheObserver, ...] = ()
        self.observer_errors = ObserverErrors()
        self.live: dict[int, Sequence] = {}
        self.time: float | None = None
        self.sequence_numbers = count(1)
        self.clear()

    def clear(self) -> None:
        """Start anew, with every page free. Counters, observers and time stay."""
        config = self.config
        self.tree = RadixTree(self.page_bytes, config.make_policy(), with_agreement=config.partial_reuse)
        self.allocator = PageAllocator(config.num_pages, config.first_page)
        self.copies = CopyLedger(self.tree, self.allocator)
        self.ghosts = GhostTable(config.ghost_records(), config.first_page, config.num_pages)
        self.in_flight = InFlight()

    @property
    def now(self) -> float:
        """Seconds as the owner told them, or lookups where it tells nothing."""
        return self.counters.lookups if self.time is None else self.time

    @property
    def num_evictable(self) -> int:
        """Cached pages that nobody uses."""
        return self.tree.num_pages - self.tree.num_locked_pages

    def page_counts(self) -> PageCounts:
        """Pages by state."""
        free, evictable, locked = (
            self.allocator.num_free,
            self.num_evictable,
            self.tree.num_locked_pages,
        )
        total = self.config.num_pages
        return PageCounts(free, total - free - evictable - locked, evictable, locked, total)

    # Pages

    def take(self, num_pages: int) -> PageIds:
        """Hand out pages, evicting exactly what is short.

        Raises:
            OutOfPages: Not so many are available. Nothing was evicted.
        """
        short = num_pages - self.allocator.num_free
        if short > 0:
            if short > self.num_evictable:
                raise self.out_of_pages(num_pages)
            self.evict(short)
        return self.allocator.alloc(num_pages)

    def out_of_pages(self, needed: int) -> OutOfPages:
        """The error, counted."""
        self.counters.failed_reserves += 1
        return OutOfPages(
            needed=needed,
            free=self.allocator.num_free,
            evictable=self.num_evictable,
            locked=self.tree.num_locked_pages,
        )

    def give_back(self, pages: PageIds) -> None:
        """Take back private pages; those that a copy waits for stay out until it was made."""
        pages = self.copies.withhold(pages)
        if pages:
            self.allocator.free(pages)

    def evict(self, num_pages: int) -> int:
        """Evict up to `num_pages` pages; returns how many went.

        Raises:
            InvalidConfig: See `RadixTree.evict`. What went before is free, and told of.
        """
        victims: list[Victim] = []
        try:
            self.tree.evict(num_pages, victims)
        finally:
            num_gone = self._account_for(victims) if victims else 0
        return num_gone

    def _account_for(self, victims: list[Victim]) -> int:
        now, ghosts = self.now, self.ghosts
        for _, anchor, _, _, first_page in victims:
            ghosts.evicted(anchor, first_page, now)
        num_gone = self._free(victims)
        self.counters.evictions += len(victims)
        self.counters.evicted_pages += num_gone
        if self.observers:
            self._tell_evicted(victims)
        return num_gone

    def _drop_retired(self, victims: list[Victim]) -> int:
        """Free pages of a retired namespace: that is no eviction, and `retire` has told of it."""
        return self._free(victims) if victims else 0

    def _free(self, victims: list[Victim]) -> int:
        if len(victims) == 1 and len(victims[0].pages) == PAGE_ID_BYTES:
            page = int.from_bytes(victims[0].pages, "little")
            self.ghosts.forget_behind_one(page)
            self.allocator.free_one(page)
            return 1
        gone = array("i", b"".join([victim.pages for victim in victims]))
        self.ghosts.forget_behind(gone)  # a victim may have been the anchor of one before it
        self.allocator.free(gone)
        return len(gone)

    def available_after_publish(self, node: Node, data: bytes, own: PageIds) -> int:
        """Pages available once the holder of `node` has published `data` in `own` pages below it.

        Duplicates come back, and their twins get locked.
        """
        reached, at, child, child_pages, _ = self.tree.walk(node, data, 0, len(data))
        num_duplicates = at // self.page_bytes + child_pages
        newly_locked = self.tree.unlocked_pages(reached, node)
        if child is not None and not child.lock_count:
            newly_locked += child_pages
        num_back = num_duplicates - self.copies.num_waiting_for(own[:num_duplicates])
        return self.allocator.num_free + self.num_evictable + num_back - newly_locked

    # Holders

    def release(self, node: Node) -> None:
        """A holder leaves `node`."""
        root = node.root
        self.tree.unlock(node)
        if root.retired:
            self._drop_retired(self.tree.sweep(node))
        if root.children is None:
            self.tree.drop_if_idle(root)

    def settle(self, source: CopySource) -> None:
        """A sequence no longer waits for a copy."""
        node = self.copies.settle(source)
        if node is not None:
            self.release(node)

    def retire(self, root: Root) -> int:
        """Close a namespace; returns the number of pages that went at once."""
        num_pages = self._drop_retired(self.tree.retire(root))
        self.tell_cleared(root.namespace, everything=False)
        return num_pages

    # Telling

    def tell_published(self, node: Node, anchor: Anchor, pages: PageIds, tokens: bytes) -> None:
        """Report a run of pages that `node` now ends with."""
        namespace, parent_page = node.root.namespace, anchor if isinstance(anchor, int) else None
        run = np.frombuffer(pages.tobytes(), dtype=np.int32)
        depth = node.end - len(pages)
        self.observer_errors.tell(
            self.observers,
            lambda observer: observer.published(namespace, parent_page, run, Tokens.trusted(tokens), depth),
        )

    def _tell_evicted(self, victims: list[Victim]) -> None:
        self.observer_errors.tell(self.observers, *[_report_of(victim) for victim in victims])

    def tell_cleared(self, namespace: Namespace, *, everything: bool) -> None:
        """Report that a namespace, or all, was cleared."""
        self.observer_errors.tell(
            self.observers, lambda observer: observer.cleared(namespace, everything=everything)
        )


def _report_of(victim: Victim) -> Callable[[CacheObserver], None]:
    root, anchor, depth, pages, _ = victim
    surviving = anchor if isinstance(anchor, int) else None
    run = np.frombuffer(pages, dtype="<i4")
    return lambda observer: observer.evicted(root.namespace, run, surviving, depth)
