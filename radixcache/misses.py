"""Why a prompt missed: what was evicted, what is being computed, and what cannot be cached at all."""

from array import array
from collections import deque
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from radixcache.allocator import FEW_PAGES, PageIds, page_index

Anchor: TypeAlias = int | bytes
"""Where a prefix ends: the id of its deepest page, or the key of its namespace where it has none."""

_SHARDS: Final = 256
_GhostKey: TypeAlias = tuple[Anchor, int, bytes]
_Shard: TypeAlias = "dict[_GhostKey, _Record]"
_Record: TypeAlias = "tuple[float, _GhostKey, _Shard]"


class MissReason(StrEnum):
    """Why tokens of a prompt were not found."""

    NEVER_SEEN = "never_seen"
    """No record of the next page: never computed, or forgotten."""
    EVICTED = "evicted"
    """The next page was cached after the same prefix, and was evicted."""
    OTHER_NAMESPACE = "other_namespace"
    """The next page is cached after the same prefix in another namespace."""
    IN_FLIGHT = "in_flight"
    """Another live sequence is computing the next page."""
    SHORTER_THAN_PAGE = "shorter_than_page"
    """Fewer tokens than a page remain."""
    LAST_TOKEN = "last_token"
    """The page holds the last prompt token, which is always recomputed, so that logits exist."""


class Miss(NamedTuple):
    """Where the tokens of a prompt went that were not matched.

    Attributes:
        reason: Why the first page after the match was not there; `None` if no further page could match.
        num_tokens: Tokens in pages that could have matched.
        tail_reason: `SHORTER_THAN_PAGE` or `LAST_TOKEN`.
        tail_tokens: Tokens at the end of the prompt that no cache of this page size can match.
        age: With `EVICTED`, how long ago: seconds, or lookups where the owner gives no time.
    """

    reason: MissReason | None
    num_tokens: int
    tail_reason: MissReason
    tail_tokens: int
    age: float | None = None

    def tokens_by_reason(self) -> dict[MissReason, int]:
        """Unmatched tokens by reason; they sum to prompt length - `matched_len`."""
        tokens = {self.tail_reason: self.tail_tokens}
        if self.reason is not None:
            tokens[self.reason] = self.num_tokens
        return tokens


class GhostTable:
    """When the page after a still cached prefix was evicted; one record for each eviction boundary.

    A record is known by its anchor and the tokens of the page that followed. It counts no more when its
    anchor is evicted, as the boundary then lies further up, when the page comes back, or when `max_records`
    newer ones were made.

    An anchor page has a generation, which ends when the page is evicted: its records need no looking for.
    The records lie in many small dictionaries: one large one would take some calls long to grow.

    Complexity:
        O(1) a record, in every single call; `forget_behind` O(pages) at memcpy speed.
    """

    def __init__(self, max_records: int, first_page: int, num_pages: int) -> None:
        self._max_records = max_records
        self._first_page = first_page
        self._generations = array("I", bytes(4 * num_pages))
        self._is_anchor = bytearray(num_pages)
        self._is_anchor_view = np.frombuffer(self._is_anchor, dtype=np.bool_)
        self._shards: list[_Shard] = [{} for _ in range(_SHARDS)]
        self._made: deque[_Record] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def _key(self, anchor: Anchor, next_page: bytes) -> _GhostKey:
        if isinstance(anchor, int):
            return anchor, self._generations[anchor - self._first_page], next_page
        return anchor, 0, next_page

    def time_of(self, anchor: Anchor, next_page: bytes) -> float | None:
        """When the page with these tokens went from behind `anchor`."""
        key = self._key(anchor, next_page)
        record = self._shards[hash(key) % _SHARDS].get(key)
        return None if record is None else record[0]

    def evicted(self, anchor: Anchor, next_page: bytes, time: float) -> None:
        """A run of pages went from behind `anchor`; `next_page` are the tokens of the first of them."""
        if not self._max_records:
            return
        generation = 0
        if isinstance(anchor, int):
            generation = self._generations[anchor - self._first_page]
            self._is_anchor[anchor - self._first_page] = 1
        key = (anchor, generation, next_page)
        shard = self._shards[hash(key) % _SHARDS]
        shard[key] = record = (time, key, shard)
        made = self._made
        made.append(record)
        if len(made) > self._max_records:
            oldest = made.popleft()
            _, key, shard = oldest
            if shard.get(key) is oldest:
                del shard[key]

    def forget_behind(self, pages: PageIds) -> None:
        """These pages go: no record is anchored there any more."""
        if len(pages) > FEW_PAGES:
            ids = np.frombuffer(pages, dtype=np.int32)
            pages = array("i", ids[self._is_anchor_view[page_index(ids, self._first_page)]].tobytes())
        for page in pages:
            self.forget_behind_one(page)

    def forget_behind_one(self, page: int) -> None:
        """As `forget_behind`, for one page."""
        position = page - self._first_page
        if self._is_anchor[position]:
            self._is_anchor[position] = 0
            self._generations[position] += 1

    def published(self, anchor: Anchor, next_page: bytes) -> None:
        """The page is back."""
        key = self._key(anchor, next_page)
        self._shards[hash(key) % _SHARDS].pop(key, None)

    def forget_namespace(self, key: bytes) -> None:
        """No record is anchored at the root of this namespace any more. O(records)."""
        for shard in self._shards:
            for record in [each for each in shard if isinstance(each[0], bytes) and each[0] == key]:
                del shard[record]

    def anchors(self) -> list[Anchor]:
        """Where the records that count are anchored. O(records)."""
        keys = [key for shard in self._shards for key in shard]
        return [key[0] for key in keys if self._key(key[0], key[2]) == key]


class InFlight:
    """Which next pages live sequences are computing, by anchor and tokens. O(1) a call."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Anchor, bytes], int] = {}

    def __contains__(self, key: tuple[Anchor, bytes]) -> bool:
        return key in self._counts

    def add(self, key: tuple[Anchor, bytes]) -> None:
        """One more sequence computes this page."""
        self._counts[key] = self._counts.get(key, 0) + 1

    def discard(self, key: tuple[Anchor, bytes]) -> None:
        """One sequence fewer does."""
        count = self._counts[key] - 1
        if count:
            self._counts[key] = count
        else:
            del self._counts[key]
