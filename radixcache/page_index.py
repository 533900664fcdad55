"""The other end of the event stream: which prefixes a cache elsewhere holds, for routers and tests."""

from radixcache.errors import InvalidArgument
from radixcache.events import Cleared, Event, Removed, Snapshot, Stored
from radixcache.namespace import Namespace, namespace_key
from radixcache.tokens import TOKEN_BYTES, Tokens, TokenSource


class PageIndex:
    """Replays events into the set of cached pages, and knows when it must not be trusted.

    Lost events are noticed by their numbers: from then on nothing is applied until `load` brings a snapshot.
    Late and doubled events are harmless.

    Args:
        page_size: Tokens a page holds.

    Complexity:
        O(pages) an event; 2 dictionary entries a page.

    Example:
        >>> from radixcache import CacheConfig, PrefixCache
        >>> cache = PrefixCache(CacheConfig(num_pages=4, page_size=2, max_events=16))
        >>> index = PageIndex(page_size=2)
        >>> with cache.open([1, 2, 3, 4, 5]) as seq:
        ...     seq.reserve(5)
        ...     seq.advance(5)
        >>> [index.apply(event) for event in cache.events.since(0, 0)]
        [True]
        >>> index.matched_len([1, 2, 3, 4, 9])
        4
    """

    def __init__(self, page_size: int) -> None:
        if page_size < 1:
            raise InvalidArgument(f"page_size is at least 1, got {page_size}")
        self._page_bytes = page_size * TOKEN_BYTES
        self._page_size = page_size
        self._epoch = 0
        self._next_sequence = 0
        self._page_behind: dict[tuple[bytes, int | None, bytes], int] = {}
        self._place_of: dict[int, tuple[bytes, int | None, bytes]] = {}
        self.needs_snapshot = False
        """Whether events were lost; until `load`, what this index says is out of date."""

    @property
    def pages(self) -> frozenset[int]:
        """Ids of all pages that are cached, as far as is known."""
        return frozenset(self._place_of)

    def matched_len(self, prompt: TokenSource, namespace: Namespace = None) -> int:
        """Tokens of the longest prefix that is cached, never the whole prompt."""
        data = Tokens(prompt).data
        key, page, matched = namespace_key(namespace), None, 0
        limit = (len(data) - TOKEN_BYTES) // self._page_bytes * self._page_bytes
        for at in range(0, limit, self._page_bytes):
            page = self._page_behind.get((key, page, data[at : at + self._page_bytes]))
            if page is None:
                break
            matched += self._page_size
        return matched

    def apply(self, event: Event) -> bool:
        """Take in the next event.

        Returns:
            `False` when events before it were lost, now or earlier, and a snapshot is needed.
        """
        begins_epoch = isinstance(event, Cleared) and event.everything and event.sequence == 0
        if event.epoch > self._epoch and begins_epoch:
            self._epoch, self._next_sequence, self.needs_snapshot = event.epoch, 0, False
        if (event.epoch, event.sequence) < (self._epoch, self._next_sequence):
            return not self.needs_snapshot
        if self.needs_snapshot or (event.epoch, event.sequence) != (self._epoch, self._next_sequence):
            self.needs_snapshot = True
            return False
        self._next_sequence += 1
        if isinstance(event, Stored):
            self._store(event)
        elif isinstance(event, Removed):
            for page in event.pages:
                self._drop(page)
        else:
            self._clear(event)
        return True

    def load(self, snapshot: Snapshot) -> None:
        """Forget everything and start from a snapshot; events numbered below it are then ignored."""
        self._page_behind.clear()
        self._place_of.clear()
        self._epoch, self._next_sequence = snapshot.epoch, snapshot.sequence
        self.needs_snapshot = False
        for stored in snapshot.stored:
            self._store(stored)

    def _store(self, event: Stored) -> None:
        key, parent, data = namespace_key(event.namespace), event.parent_page, event.tokens.data
        for position, page in enumerate(event.pages):
            at = position * self._page_bytes
            place = (key, parent, data[at : at + self._page_bytes])
            self._page_behind[place] = page
            self._place_of[page] = place
            parent = page

    def _drop(self, page: int) -> None:
        place = self._place_of.pop(page, None)
        if place is not None:
            del self._page_behind[place]

    def _clear(self, event: Cleared) -> None:
        key = namespace_key(event.namespace)
        for page, place in list(self._place_of.items()):
            if event.everything or place[0] == key:
                self._drop(page)
