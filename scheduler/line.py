"""Everybody who waits: new requests in their order, preempted ones before them."""

import heapq

from radixcache import PrefixCache
from scheduler.bounded import BoundedWaiting
from scheduler.config import SchedulerConfig
from scheduler.leaders import Leaders
from scheduler.levels import PriorityLevels
from scheduler.policies import QUEUE_POLICIES, QueuePolicy
from scheduler.policies.base import ForestPolicy
from scheduler.request import Request, RequestState


def make_queue(cache: PrefixCache, config: SchedulerConfig) -> tuple[QueuePolicy, bool]:
    """The order that the settings name, with priorities and bounded waiting around it.

    Returns:
        The order, and whether it depends on what those that run generate.
    """
    make = QUEUE_POLICIES[config.policy] if isinstance(config.policy, str) else config.policy
    options, step = config.policy_options, config.priority_step
    order = make(cache, options)
    queue = order if step is None else PriorityLevels(lambda: make(cache, options), step)
    if getattr(order, "is_bounded", True):
        by_client = getattr(order, "counts_by_client", False)
        group_of = _client_of if by_client else _everybody
        queue = BoundedWaiting(queue, config.overtakes_allowed, group_of)
    return queue, getattr(type(order), "generated", None) is not ForestPolicy.generated


def _client_of(request: Request) -> str | None:
    return request.client


def _everybody(_: Request) -> None:
    return None


class WaitingLine:
    """Who waits, who may come next, and whom others wait for.

    Preempted requests come first, in number order, each after a running one ended or when none runs: so a
    request is thrown back at most as often as others end.

    Args:
        cache: Where prefixes are found.
        config: Settings of the scheduler.

    Attributes:
        counts_outputs: Whether the order depends on what those that run generate.
    """

    def __init__(self, cache: PrefixCache, config: SchedulerConfig) -> None:
        self._queue, self.counts_outputs = make_queue(cache, config)
        self._leaders = Leaders(cache, self._queue) if config.share_in_flight else None
        self._preempted: dict[int, Request] = {}
        self._deadlines: list[tuple[float, int, Request]] = []
        self._num_with_deadline = 0
        self._is_blocked = False

    def __len__(self) -> int:
        return len(self._queue) + len(self._preempted)

    @property
    def has_deadlines(self) -> bool:
        """Whether a new request that waits has a deadline."""
        return self._num_with_deadline > 0

    def join(self, request: Request) -> None:
        """A new request waits."""
        self._is_blocked = False
        self._queue.add(request)
        if request.deadline is not None:
            self._num_with_deadline += 1
            heapq.heappush(self._deadlines, (request.deadline, request.number, request))

    def _forget_deadline(self, request: Request) -> None:
        """A new request waits no longer; once most deadlines are of such, they are dropped."""
        if request.deadline is None:
            return
        self._num_with_deadline -= 1
        if len(self._deadlines) > 2 * self._num_with_deadline + 16:
            self._deadlines = [each for each in self._deadlines if each[2].state is RequestState.WAITING]
            heapq.heapify(self._deadlines)

    def leave(self, request: Request) -> None:
        """A request that waits is ended."""
        self._is_blocked = False
        if request.state is RequestState.PREEMPTED:
            del self._preempted[request.number]
        else:
            self._queue.remove(request)
            self._forget_deadline(request)

    def expired(self, now: float) -> list[Request]:
        """New requests whose deadline passed while they waited. O(log n) for each deadline that passed."""
        late = []
        while self._deadlines and self._deadlines[0][0] < now:
            request = heapq.heappop(self._deadlines)[2]
            if request.state is RequestState.WAITING:
                late.append(request)
        return late

    def candidate(self, now: float, num_running: int, num_ended: int) -> Request | None:
        """The request to admit next; `None` where nobody may come now.

        Args:
            now: The time.
            num_running: Requests that run.
            num_ended: Requests that ran and ended, ever.
        """
        if self._is_blocked and num_running:
            return None
        if self._preempted:
            request = self._preempted[min(self._preempted)]
            is_too_soon = num_running > 0 and num_ended == request.ended_before
            return None if is_too_soon else request
        return self._queue.head(now)

    def refuse(self) -> None:
        """The candidate did not fit: nobody is tried before somebody comes, ends, or publishes a prompt.

        Until then those that run only grow. What they evict meanwhile may bring another candidate to the
        front; it has to wait for the same occasions.
        """
        self._is_blocked = True

    def admit(self, request: Request, extend_len: int) -> None:
        """It fits, and runs from now on, with so many tokens to compute."""
        if request.state is RequestState.PREEMPTED:
            del self._preempted[request.number]
        else:
            self._queue.admitted(request, extend_len)
            self._forget_deadline(request)

    def throw_back(self, request: Request) -> None:
        """A running request was preempted."""
        self._preempted[request.number] = request
        self.stop_leading(request)

    def lead(self, request: Request) -> None:
        """A running request computes what others may wait for, or has published some of it."""
        self._is_blocked = False
        if self._leaders is not None:
            self._leaders.follow(request)

    def stop_leading(self, request: Request) -> None:
        """A request runs no longer."""
        self._is_blocked = False
        if self._leaders is not None:
            self._leaders.drop(request)

    def generated(self, request: Request, num_tokens: int) -> None:
        """A running request generated tokens."""
        self._queue.generated(request, num_tokens)
