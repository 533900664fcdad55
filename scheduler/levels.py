"""Request priorities that age: one order for each level, and the level that is ahead goes first."""

from collections import Counter, OrderedDict
from collections.abc import Callable

from radixcache.misses import Anchor
from scheduler.policies.base import ForestPolicy, QueuePolicy
from scheduler.request import Request


class PriorityLevels:
    """Requests of the highest level first, where waiting for `step` lifts the oldest of a level by one.

    A level that has waited long enough passes any other, so that no stream of important requests can keep
    the others out. A level that nobody waits in is dropped, unless its order remembers what was before.

    Args:
        make: Makes the order within a level.
        step: Time that counts as much as one level, in the unit of `now`, > 0.

    Complexity:
        O(levels) for each call, for `head` O(levels log levels), plus that of the order within; `add` to a
        level that nobody waits in O(holds) on top.
    """

    def __init__(self, make: Callable[[], QueuePolicy], step: float) -> None:
        self._make = make
        self._step = step
        self._levels: dict[int, QueuePolicy] = {}
        self._since: dict[int, OrderedDict[int, float]] = {}
        self._holds: Counter[tuple[Anchor, bytes]] = Counter()

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        level = self._levels.get(request.priority)
        if level is None:
            level = self._levels[request.priority] = self._make()
            for held in self._holds.elements():
                level.hold(*held)
        assert request.submitted_at is not None
        since = self._since.setdefault(request.priority, OrderedDict())
        since[request.number] = request.submitted_at
        level.add(request)

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self._levels[request.priority].remove(request)
        self._left(request)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`."""
        self._levels[request.priority].admitted(request, extend_len)
        self._left(request)

    def _left(self, request: Request) -> None:
        priority = request.priority
        del self._since[priority][request.number]
        if not self._since[priority]:
            del self._since[priority]
            level = self._levels[priority]
            if isinstance(level, ForestPolicy) and level.is_as_new:
                del self._levels[priority]

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        for priority in sorted(self._since, key=lambda each: (-self._standing(each, now), -each)):
            request = self._levels[priority].head(now)
            if request is not None:
                return request
        return None

    def _standing(self, priority: int, now: float) -> float:
        oldest = next(iter(self._since[priority].values()))
        return priority + (now - oldest) / self._step

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`. A level that was dropped has nothing to note."""
        level = self._levels.get(request.priority)
        if level is not None:
            level.generated(request, num_tokens)

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`."""
        self._holds[anchor, next_page] += 1
        for level in self._levels.values():
            level.hold(anchor, next_page)

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`."""
        self._holds[anchor, next_page] -= 1
        if not self._holds[anchor, next_page]:
            del self._holds[anchor, next_page]
        for level in self._levels.values():
            level.release(anchor, next_page)

    def __len__(self) -> int:
        return sum(map(len, self._levels.values()))
