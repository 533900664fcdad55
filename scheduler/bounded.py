"""Bounded waiting: nobody is overtaken more often than a limit, whatever the order."""

import heapq
from collections import OrderedDict
from collections.abc import Callable

from scheduler.policies.base import QueuePolicy
from scheduler.request import Request
from scheduler.waiting.forest import Anchor


class Overtakes:
    """How often the oldest waiting request was overtaken: no other can have been overtaken more often.

    A request is overtaken when one with a larger number is admitted for the first time. For the oldest that
    is all first admissions, less those of smaller numbers.

    Complexity:
        O(log admitted) amortised for each call.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, tuple[Request, int]] = OrderedDict()
        self._admitted_behind: list[int] = []
        self._num_admitted_before = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, number: int) -> bool:
        return number in self._waiting

    def arrived(self, request: Request, limit: int) -> None:
        """A request waits, and may be overtaken `limit` times."""
        self._waiting[request.number] = (request, limit)

    def left(self, number: int, *, admitted: bool) -> None:
        """A request was admitted for the first time, or ended while it waited."""
        del self._waiting[number]
        if admitted:
            heapq.heappush(self._admitted_behind, number)

    def of_oldest(self) -> int:
        """How often the oldest that waits was overtaken; 0 when nobody waits."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return 0
        while self._admitted_behind and self._admitted_behind[0] < oldest:
            heapq.heappop(self._admitted_behind)
        return len(self._admitted_behind)

    def due(self) -> Request | None:
        """The oldest, if it must not be overtaken once more."""
        if not self._waiting:
            return None
        request, limit = next(iter(self._waiting.values()))
        return request if self.of_oldest() >= limit else None


class BoundedWaiting:
    """Any order, except that a request which was overtaken too often is next, even if it is held.

    Args:
        inner: The order.
        limit: Overtakes allowed, given the number of requests that wait when one arrives.
        group_of: Requests are counted within their group, and only overtaken within it.

    Complexity:
        `head`: that of the inner order, plus O(groups) where all are held.
    """

    def __init__(
        self,
        inner: QueuePolicy,
        limit: Callable[[int], int],
        group_of: Callable[[Request], str | None],
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._group_of = group_of
        self._groups: dict[str | None, Overtakes] = {}

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        overtakes = self._groups.setdefault(self._group_of(request), Overtakes())
        overtakes.arrived(request, self._limit(len(overtakes)))
        self._inner.add(request)

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self._inner.remove(request)
        self._left(request, admitted=False)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`. All that wait with smaller numbers are overtaken."""
        self._inner.admitted(request, extend_len)
        self._left(request, admitted=True)

    def _left(self, request: Request, *, admitted: bool) -> None:
        overtakes = self._groups[self._group_of(request)]
        overtakes.left(request.number, admitted=admitted)
        if not overtakes:
            del self._groups[self._group_of(request)]

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        request = self._inner.head(now)
        if request is not None:
            return self._groups[self._group_of(request)].due() or request
        due = [overtakes.due() for overtakes in self._groups.values()]
        return min((each for each in due if each is not None), key=lambda each: each.number, default=None)

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`."""
        self._inner.generated(request, num_tokens)

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`."""
        self._inner.hold(anchor, next_page)

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`."""
        self._inner.release(anchor, next_page)

    def __len__(self) -> int:
        return len(self._inner)
