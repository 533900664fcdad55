"""Longest prefix match by brute force: the oracle of the incremental order."""

from typing import ClassVar

from radixcache import PrefixCache
from radixcache.misses import Anchor
from scheduler.policies.base import PolicyOptions
from scheduler.request import Request


class RematchLPM:
    """Matches everybody anew at every admission. Holds nobody.

    Complexity:
        `head`: O(waiting) peeks. The rest O(1).
    """

    is_bounded: ClassVar[bool] = False

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._cache = cache
        self._waiting: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self._waiting[request.number] = request

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        del self._waiting[request.number]

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        return max(self._waiting.values(), key=self._rank, default=None)

    def _rank(self, request: Request) -> tuple[int, int]:
        matched = self._cache.peek(request.prompt, request.namespace).matched_len if request.read else 0
        return matched, -request.number

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`."""
        self.remove(request)

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`. Nothing to note."""

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`. Holds nobody."""

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`. Holds nobody."""

    def __len__(self) -> int:
        return len(self._waiting)
