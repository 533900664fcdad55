"""Orders of the waiting queue, one small class each, in one dictionary."""

from collections.abc import Callable
from typing import Final, Protocol

from radixcache import PrefixCache
from scheduler.request import Request


class QueuePolicy(Protocol):
    """Holds the waiting requests and says which one is next."""

    def add(self, request: Request) -> None:
        """A request begins to wait."""
        ...

    def remove(self, request: Request) -> None:
        """A waiting request was admitted or aborted."""
        ...

    def head(self) -> Request | None:
        """The request to admit next; `None` when nobody waits. Changes nothing."""
        ...

    def __len__(self) -> int: ...


class FCFS:
    """First come, first served: by number of submission.

    Complexity:
        O(1) for each call.
    """

    def __init__(self, cache: PrefixCache) -> None:
        self._waiting: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        """See `QueuePolicy`. Numbers only grow, so that the dictionary stays in order."""
        self._waiting[request.number] = request

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        del self._waiting[request.number]

    def head(self) -> Request | None:
        """See `QueuePolicy`."""
        return next(iter(self._waiting.values()), None)

    def __len__(self) -> int:
        return len(self._waiting)


class LPM:
    """Longest prefix match first, ties by number: exact at any queue length, by matching everybody anew.

    A cold request waits as long as warmer ones keep coming.

    Complexity:
        `head`: O(waiting) peeks. The rest O(1).
    """

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._waiting: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self._waiting[request.number] = request

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        del self._waiting[request.number]

    def head(self) -> Request | None:
        """See `QueuePolicy`."""
        return max(self._waiting.values(), key=self._rank, default=None)

    def _rank(self, request: Request) -> tuple[int, int]:
        matched = self._cache.peek(request.prompt, request.namespace).matched_len if request.read else 0
        return matched, -request.number

    def __len__(self) -> int:
        return len(self._waiting)


QUEUE_POLICIES: Final[dict[str, Callable[[PrefixCache], QueuePolicy]]] = {"fcfs": FCFS, "lpm": LPM}
