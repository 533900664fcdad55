"""Bounded waiting: nobody is overtaken more often than a limit, whatever the order."""

from collections.abc import Callable

from radixcache.misses import Anchor
from scheduler.overtakes import Overtakes
from scheduler.policies.base import QueuePolicy
from scheduler.request import Request


class BoundedWaiting:
    """Any order, except that a request which was overtaken too often is next, even if it is held.

    Args:
        inner: The order.
        limit: Overtakes allowed, given the number of requests that wait when one arrives.
        group_of: Requests are counted within their group, and only overtaken within it.

    Complexity:
        `head`: that of the inner order; where all are held, plus O(groups in which somebody is due). The
        rest: see `Overtakes`.
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
        self._due: dict[str | None, Request] = {}

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        group = self._group_of(request)
        overtakes = self._groups.get(group)
        if overtakes is None:
            overtakes = self._groups[group] = Overtakes()
        overtakes.arrived(request, self._limit(len(overtakes)))
        self._note_due(group, overtakes)
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
        group = self._group_of(request)
        overtakes = self._groups[group]
        overtakes.left(request.number, admitted=admitted)
        self._note_due(group, overtakes)
        if not overtakes:
            del self._groups[group]

    def _note_due(self, group: str | None, overtakes: Overtakes) -> None:
        due = overtakes.due()
        if due is not None:
            self._due[group] = due
        else:
            self._due.pop(group, None)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        request = self._inner.head(now)
        if not self._due:
            return request
        if request is not None:
            return self._due.get(self._group_of(request), request)
        return min(self._due.values(), key=lambda due: due.number)

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
