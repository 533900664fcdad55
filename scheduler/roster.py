"""Everybody in the scheduler, from submission to the end: each change of a request's state is made here."""

from radixcache import PrefixCache, Sequence
from scheduler.config import SchedulerConfig
from scheduler.line import WaitingLine
from scheduler.observer import SchedulerObserver
from scheduler.plan import OutputSource
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.running import Running


class Roster:
    """Who is there. A request joins, is admitted, may be thrown back and admitted again, and ends.

    Args:
        cache: Where prefixes are found.
        config: Settings of the scheduler.
        output_source: Says which tokens a request generates; see `Running`.

    Attributes:
        line: Those who wait.
        running: Those who run.
        num_ended: Requests that ran and ended, ever.
        observers: Told of every request that comes or ends.
    """

    def __init__(
        self, cache: PrefixCache, config: SchedulerConfig, output_source: OutputSource | None
    ) -> None:
        self.line = WaitingLine(cache, config)
        self.running = Running(cache.config.page_size, output_source)
        self.num_ended = 0
        self.observers: tuple[SchedulerObserver, ...] = ()
        self._requests: dict[str, Request] = {}
        self._next_number = 0
        self._errors = cache.observer_errors

    def __len__(self) -> int:
        return len(self._requests)

    def find(self, request_id: str) -> Request | None:
        """The request of that name, if it waits or runs."""
        return self._requests.get(request_id)

    def join(self, request: Request, now: float) -> None:
        """A new request waits, with the next number."""
        request.enter(RequestState.WAITING)
        request.number = self._next_number
        request.submitted_at = now
        self._next_number += 1
        self._requests[request.request_id] = request
        self.line.join(request)
        if self.observers:
            self._errors.tell(self.observers, lambda observer: observer.submitted(request, now))

    def admit(self, request: Request, sequence: Sequence, now: float) -> None:
        """A request that waits runs from now on, with a sequence whose pages are reserved."""
        self.line.admit(request, len(request.prompt) - sequence.computed_len)
        if request.state is RequestState.WAITING:
            request.note_first_admission(sequence, now)
        request.enter(RequestState.RUNNING)
        request.sequence = sequence
        self.running.add(request)
        self.line.lead(request)

    def throw_back(self, request: Request, reason: PreemptReason) -> None:
        """A running request waits again; what it computed is published first, unless its step failed."""
        self.running.wake(request)
        assert request.sequence is not None
        request.enter(RequestState.PREEMPTED)
        request.num_preemptions += 1
        request.ended_before = self.num_ended
        if reason is PreemptReason.STEP_FAILED:
            request.sequence.abort()
        else:
            request.sequence.close()
        request.sequence = None
        self.running.remove(request)
        self.line.throw_back(request)

    def end(self, request: Request, state: RequestState, now: float) -> None:
        """A request leaves in a final state; what it published stays cached."""
        if request.state is RequestState.RUNNING:
            self.running.wake(request)
        else:
            self.line.leave(request)
        request.enter(state)
        request.finished_at = now
        if request.sequence is not None:
            if state is RequestState.FINISHED:
                request.sequence.close()
            else:
                request.sequence.abort()
            request.sequence = None
        if self.running.remove(request):
            self.num_ended += 1
            self.line.stop_leading(request)
        del self._requests[request.request_id]
        if self.observers:
            self._errors.tell(self.observers, lambda observer: observer.ended(request, now))
