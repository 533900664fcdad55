"""Why a prompt missed: what was evicted, what is being computed, and what cannot be cached at all."""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

Anchor: TypeAlias = int | bytes
"""Where a prefix ends: the id of its deepest page, or the key of its namespace where it has none."""

_FEW: Final = 8  # pages up to which a Python loop beats NumPy's fixed cost


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


@dataclass(frozen=True, slots=True)
class Miss:
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

    A record is known by its anchor and the tokens of the page that followed. It goes when its anchor is
    evicted, as the boundary then lies further up, when the page comes back, or when `max_records` newer ones
    exist.

    Complexity:
        O(1) a record; `forget_behind` O(pages) at memcpy speed.
    """

    def __init__(self, max_records: int, first_page: int, num_pages: int) -> None:
        self._max_records = max_records
        self._first_page = first_page
        self._times: OrderedDict[tuple[Anchor, bytes], float] = OrderedDict()
        self._after: dict[int, set[bytes]] = {}
        self._has_after = np.zeros(num_pages, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._times)

    def time_of(self, anchor: Anchor, next_page: bytes) -> float | None:
        """When the page with these tokens went from behind `anchor`."""
        return self._times.get((anchor, next_page))

    def evicted(self, anchor: Anchor, next_page: bytes, time: float) -> None:
        """A run of pages went from behind `anchor`; `next_page` are the tokens of the first of them."""
        if not self._max_records:
            return
        key = (anchor, next_page)
        if key in self._times:
            self._times.move_to_end(key)
        elif len(self._times) >= self._max_records:
            self._forget(self._times.popitem(last=False)[0])
        self._times[key] = time
        if isinstance(anchor, int):
            self._after.setdefault(anchor, set()).add(next_page)
            self._has_after[anchor - self._first_page] = True

    def forget_behind(self, pages: bytes) -> None:
        """These pages (ids as little-endian int32) go: no record can be anchored there any more."""
        if not self._after:
            return
        ids = np.frombuffer(pages, dtype="<i4")
        if len(ids) > _FEW:
            ids = ids[self._has_after[ids - self._first_page]]
        for page in ids.tolist():
            for next_page in self._after.pop(page, ()):
                del self._times[page, next_page]
            self._has_after[page - self._first_page] = False

    def published(self, anchor: Anchor, next_page: bytes) -> None:
        """The page is back."""
        key = (anchor, next_page)
        if self._times.pop(key, None) is not None:
            self._forget(key)

    def clear(self) -> None:
        """Forget everything."""
        self._times.clear()
        self._after.clear()
        self._has_after[:] = False

    def _forget(self, key: tuple[Anchor, bytes]) -> None:
        anchor, next_page = key
        if isinstance(anchor, int):
            after = self._after[anchor]
            after.discard(next_page)
            if not after:
                del self._after[anchor]
                self._has_after[anchor - self._first_page] = False


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
