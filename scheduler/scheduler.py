"""The loop's two halves: plan a step, take in what it brought."""

from collections.abc import Iterable

from radixcache import OutOfPages, PrefixCache, Tokens
from radixcache.errors import InvalidArgument
from scheduler.admission import Admission
from scheduler.config import SchedulerConfig
from scheduler.draft import Draft
from scheduler.errors import (
    DeadlineMissed,
    InvalidRequest,
    PlanError,
    PoolOutgrown,
    QueueFull,
    RequestTooLong,
)
from scheduler.expectation import Expectation, OutputLengths
from scheduler.guard import Guard
from scheduler.line import WaitingLine
from scheduler.observer import SchedulerObserver
from scheduler.outputs import checked_outputs
from scheduler.plan import Decodes, Horizon, Outputs, OutputSource, Row, StepPlan
from scheduler.preemption import choose_victim
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.running import Running, num_behind, take_in
from scheduler.stall import StallWatch

_MAX_COALESCED = 1 << 16


class Scheduler:
    """Decides which tokens of which requests are computed next. One thread; no device, no clock.

    There are no phases: every running request has known tokens without KV, and each step computes some of
    them within a token budget. `schedule` makes a plan, an executor runs it, `commit` takes in the outputs.

    Args:
        cache: Where prefixes are found and pages come from.
        config: Settings.
        expectation: How long outputs will get; `None`: as those that finished.
        output_source: Says which tokens a request will generate, as only a simulation can. Then requests
            that only decode are not looked at in every step: `StepPlan.decodes` stands for their rows, and
            `commit` wants no tokens for them. Every result is the same.

    Example:
        >>> from radixcache import CacheConfig
        >>> cache = PrefixCache(CacheConfig(num_pages=8, page_size=2))
        >>> scheduler = Scheduler(cache, SchedulerConfig())
        >>> scheduler.submit(Request.of("a", [1, 2, 3], max_new_tokens=1), now=0)
        >>> plan = scheduler.schedule(now=0)
        >>> [(row.start, row.extend_len, row.max_tokens) for row in plan.rows]
        [(0, 3, 1)]
        >>> [request.output for request in scheduler.commit(plan, {"a": [7]}, now=1)]
        [[7]]
    """

    def __init__(
        self,
        cache: PrefixCache,
        config: SchedulerConfig,
        expectation: Expectation | None = None,
        output_source: OutputSource | None = None,
    ) -> None:
        self.config = config
        self._cache = cache
        self._line = WaitingLine(cache, config)
        self._requests: dict[str, Request] = {}
        self._running = Running(cache.config.page_size, output_source)
        self._lengths: Expectation = OutputLengths() if expectation is None else expectation
        self._admission = Admission(cache, self._lengths)
        self._next_number = 0
        self._num_plans = 0
        self._num_ended = 0
        self._stall = StallWatch(cache, config.max_empty_plans)
        self._open_plan: StepPlan | None = None
        self._guard = Guard()
        self._observers: list[SchedulerObserver] = []

    def subscribe(self, observer: SchedulerObserver) -> None:
        """Tell `observer` of every request that comes or ends from now on."""
        self._observers.append(observer)

    def unsubscribe(self, observer: SchedulerObserver) -> None:
        """Tell `observer` nothing more.

        Raises:
            InvalidArgument: It is not subscribed.
        """
        if observer not in self._observers:
            raise InvalidArgument(f"{observer!r} is not subscribed")
        self._observers.remove(observer)

    # What there is

    @property
    def num_waiting(self) -> int:
        """Requests that wait, preempted ones included."""
        return len(self._line)

    @property
    def num_running(self) -> int:
        """Requests that run."""
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits or runs."""
        return not self._requests

    @property
    def max_tokens(self) -> int:
        """The most tokens with KV that one request can have."""
        return self._cache.config.num_pages * self._cache.config.page_size

    # Coming and going

    def submit(self, request: Request, now: float) -> None:
        """Let a request wait.

        Raises:
            QueueFull: As many wait as may.
            RequestTooLong: It can never fit, not even alone; says the largest length that can.
            InvalidRequest: Its id is taken, or it was submitted before.
            WrongThread: Called from a second thread.

        Complexity:
            O(prompt) memcmp and O(log waiting).
        """
        self._guard.require()
        if request.request_id in self._requests or request.state is not RequestState.NEW:
            raise InvalidRequest(f"request {request.request_id!r} was submitted before")
        if self.config.max_waiting is not None and self.num_waiting >= self.config.max_waiting:
            raise QueueFull(request.request_id, self.config.max_waiting)
        last_token_has_no_kv = 1
        num_tokens = len(request.prompt) + (request.max_new_tokens or 1) - last_token_has_no_kv
        if num_tokens > self.max_tokens:
            raise RequestTooLong(request.request_id, num_tokens, self.max_tokens)
        request.enter(RequestState.WAITING)
        request.number = self._next_number
        request.submitted_at = now
        self._next_number += 1
        self._requests[request.request_id] = request
        self._line.join(request)
        with self._guard.telling():
            for observer in self._observers:
                observer.submitted(request, now)

    def abort(self, request_id: str, now: float, *, error: Exception | None = None) -> bool:
        """End a request, in whatever state. What it published stays cached.

        Args:
            request_id: Which request.
            now: The time.
            error: Why it cannot go on: a running request then counts as failed.

        Returns:
            Whether it was there to be ended.
        """
        self._guard.require()
        request = self._requests.get(request_id)
        if request is None:
            return False
        request.error = error
        failed = error is not None and request.state is RequestState.RUNNING
        self._end(request, RequestState.FAILED if failed else RequestState.ABORTED, now)
        return True

    def _end(self, request: Request, state: RequestState, now: float) -> None:
        if request.state is RequestState.RUNNING:
            self._running.wake(request)
        else:
            self._line.leave(request)
        request.enter(state)
        request.finished_at = now
        if request.sequence is not None:
            if state is RequestState.FINISHED:
                request.sequence.close()
            else:
                request.sequence.abort()
            request.sequence = None
        if self._running.remove(request):
            self._num_ended += 1
            self._line.stop_leading(request)
        del self._requests[request.request_id]
        with self._guard.telling():
            for observer in self._observers:
                observer.ended(request, now)

    # Planning

    def schedule(self, now: float, horizon: Horizon | None = None) -> StepPlan:
        """Plan the next step: running requests first, oldest first, then as many new ones as fit.

        Args:
            now: The time.
            horizon: Says how many decode steps may be planned as one; see `Horizon`. `None`: one.

        Returns:
            The plan, to be committed or discarded before the next call; empty when there is nothing to do.

        Raises:
            PlanError: The plan before was not committed.
            Stalled: Requests wait, and `max_empty_plans` plans in a row could not run any.
            WrongThread: Called from a second thread.
        """
        self._guard.require()
        if self._open_plan is not None:
            raise PlanError(f"plan {self._open_plan.number} is neither committed nor discarded")
        draft = Draft(self.config.token_budget)
        self._expire(draft, now)
        self._extend_running(draft, now)
        num_running = len(self._running)
        if not draft.preempted:
            self._admit(draft, now)
        settled = len(self._running) == num_running and not draft.preempted
        if horizon is not None and settled and not self._line.has_deadlines:
            self._coalesce(draft, horizon)
        plan = draft.plan(self._num_plans)
        stuck = not (plan or plan.failed or plan.preempted or self.is_idle)
        self._stall.note(is_stuck=stuck, num_waiting=self.num_waiting, num_running=self.num_running)
        self._num_plans += 1
        if plan:
            self._open_plan = plan
        return plan

    def _expire(self, draft: Draft, now: float) -> None:
        """End new requests whose deadline passed while they waited."""
        for request in self._line.expired(now):
            request.error = DeadlineMissed(
                f"request {request.request_id!r} still waited at {now}, its deadline was {request.deadline}"
            )
            self._end(request, RequestState.EXPIRED, now)
            draft.failed.append(request)

    def _extend_running(self, draft: Draft, now: float) -> None:
        """Pages and rows for all that run, decodes before prefills, oldest first."""
        running, due = self._running, {}
        steady = running.steady
        if steady is not None and len(steady) <= draft.budget and steady.reserve(self._cache.pages.available):
            draft.decode(steady.rows())
            return
        running.park()
        if len(running.calendar):
            due = self._count_on_decodes(draft)
        behind = {number: num_behind(request) for number, request in running.awake.items()}
        decodes = sorted([*due, *(number for number, tokens in behind.items() if tokens <= 1)])
        prefills = sorted(number for number, tokens in behind.items() if tokens > 1)
        for number in decodes + prefills:
            if number in due:
                running.calendar.reserve(due[number], 1)
            elif number in running.awake:
                request = running.awake[number]
                extend_len = min(behind[number], draft.budget, self.config.chunk_tokens)
                if extend_len and self._reserve(request, extend_len, draft, now):
                    draft.add(request, extend_len)
        running.note_rows(draft.rows.values())

    def _count_on_decodes(self, draft: Draft) -> dict[int, Request]:
        """Plan a token for all that are parked; returns those of them that need a page for it, by number.

        Who ends with that token is woken before, and everybody is where somebody may have to be thrown back.
        There is always budget for one token of each that runs, as nobody is admitted without.
        """
        running, page_size = self._running, self._cache.config.page_size
        for request in running.calendar.ending(1):
            running.wake(request)
        behind = (min(num_behind(request), self.config.chunk_tokens) for request in running.awake.values())
        most_pages = running.calendar.pages_needed(1) + sum(each // page_size + 2 for each in behind)
        if most_pages > self._cache.pages.available:
            running.wake_all()
        draft.budget -= len(running.calendar)
        draft.decodes = running.decodes(1)
        due = {request.number: request for request in running.calendar.due(1)}
        self._make_free(len(due))
        return due

    def _reserve(self, request: Request, extend_len: int, draft: Draft, now: float) -> bool:
        """Get pages for a running request, throwing others back if it has to be, in the end itself."""
        assert request.sequence is not None
        while True:
            try:
                request.sequence.reserve(extend_len)
            except OutOfPages:
                victim = choose_victim(self._running)
                if victim is None:
                    self._outgrown(request, draft, now)
                    return False
                self._preempt(victim, PreemptReason.OUT_OF_PAGES, draft)
                if victim is request:
                    return False
            else:
                return True

    def _outgrown(self, request: Request, draft: Draft, now: float) -> None:
        request.error = PoolOutgrown(
            f"request {request.request_id!r} has {request.num_known} tokens and no page is left: the pool "
            f"holds at most {self.max_tokens}; pages: {self._cache.pages}"
        )
        self._end(request, RequestState.FAILED, now)
        draft.drop(request)
        draft.failed.append(request)

    def _preempt(self, request: Request, reason: PreemptReason, draft: Draft) -> None:
        """Throw a running request back; what it computed is published first."""
        self._running.wake(request)
        assert request.sequence is not None
        request.enter(RequestState.PREEMPTED)
        request.num_preemptions += 1
        request.ended_before = self._num_ended
        if reason is PreemptReason.STEP_FAILED:
            request.sequence.abort()
        else:
            request.sequence.close()
        request.sequence = None
        self._running.remove(request)
        self._line.throw_back(request)
        draft.drop(request)
        draft.preempted.append(request)

    # Admission

    def _admit(self, draft: Draft, now: float) -> None:
        while draft.budget > 0 and len(self._running) < self.config.max_running:
            request = self._line.candidate(now, len(self._running), self._num_ended)
            if request is None:
                return
            if request.num_known > self.max_tokens:
                self._outgrown(request, draft, now)
                continue
            if not self._try_admit(request, draft, now):
                self._line.refuse()
                return

    def _try_admit(self, request: Request, draft: Draft, now: float) -> bool:
        """Open, reserve and run, or leave everything as it was."""
        most_tokens = min(draft.budget, self.config.chunk_tokens)
        opened = self._admission.open(request, self._running, most_tokens)
        if opened is None:
            return False
        sequence, extend_len = opened
        self._line.admit(request, len(request.prompt) - sequence.computed_len)
        if request.state is RequestState.WAITING:
            request.note_first_admission(sequence, now)
        request.enter(RequestState.RUNNING)
        request.sequence = sequence
        self._running.add(request)
        self._line.lead(request)
        draft.add(request, extend_len)
        return True

    def _coalesce(self, draft: Draft, horizon: Horizon) -> None:
        """Plan several decode steps as one where nothing but decoding would happen in them."""
        calendar, rows = self._running.calendar, list(draft.rows.values())
        if any(row.extend_len > 1 or row.start < row.request.prompt_len for row in rows):
            return
        together = Decodes(len(rows) + len(calendar), sum(row.start for row in rows) + calendar.context)
        if not together.num_rows:
            return
        limits = [calendar.steps_to_end(), *(row.request.remaining for row in rows)]
        num_steps = min(horizon(together), *(limit for limit in limits if limit is not None), _MAX_COALESCED)
        num_pages = self._running.pages_needed(rows, num_steps)
        if num_steps <= 1 or num_pages > self._cache.pages.available:
            return
        self._make_free(num_pages)
        self._running.stir()
        for row in rows:
            assert row.request.sequence is not None
            row.request.sequence.reserve(num_steps)
        for request in calendar.due(num_steps):
            calendar.reserve(request, num_steps)
        for request in calendar.ending(num_steps):
            self._running.wake(request)
            draft.add(request, 1)
        draft.coalesce(num_steps)
        draft.decodes = self._running.decodes(num_steps)

    def _make_free(self, num_pages: int) -> None:
        """Evict what is short of so many pages in one call: cheaper than at each `reserve`, and the same."""
        short = num_pages - self._cache.pages.free
        if short > 0:
            self._cache.evict(short)

    # Taking in

    def commit(self, plan: StepPlan, outputs: Outputs, now: float) -> list[Request]:
        """Take in what a step brought: its KV is written, its tokens are known.

        Args:
            plan: The plan that was run.
            outputs: Generated tokens by request id, 1 to `max_tokens` for each row that generates; rows of
                requests that were aborted meanwhile are ignored.
            now: The time at the end of the step.

        Returns:
            Requests that finished, in row order.

        Raises:
            PlanError: Not the open plan, or the outputs do not fit it. Nothing changed.
            WrongThread: Called from a second thread.
        """
        self._guard.require()
        self._require_open(plan)
        steady = self._running.steady
        if steady is not None and steady.take_in(outputs):
            self._open_plan = None
            self._count_outputs(steady.requests, 1)
            return []
        taken = checked_outputs(plan, outputs)
        self._open_plan = self._running.steady = None
        self._count_on(plan.decodes)
        finished = []
        for row, tokens in taken:
            self._take_in(row, tokens, now)
            if row.request.remaining == 0:
                self._lengths.add(len(row.request.output))
                self._end(row.request, RequestState.FINISHED, now)
                finished.append(row.request)
        return finished

    def _count_on(self, decodes: Decodes) -> None:
        """Those that are parked got a token in each step."""
        calendar = self._running.calendar
        if decodes.num_rows:
            calendar.advance(decodes.num_steps)
            self._count_outputs(calendar.requests, decodes.num_steps)

    def _count_outputs(self, requests: Iterable[Request], num_tokens: int) -> None:
        """Each of them generated so many tokens."""
        if self._line.counts_outputs:
            for request in requests:
                self._line.generated(request, num_tokens)

    def _take_in(self, row: Row, tokens: Tokens, now: float) -> None:
        request, num_tokens = row.request, len(tokens)
        take_in(request, tokens, row.extend_len + max(0, num_tokens - 1))
        if num_tokens:
            if request.first_token_at is None:
                request.first_token_at = now
            self._line.generated(request, num_tokens)
        if row.extend_len > 1 or row.start < request.prompt_len:
            assert request.sequence is not None
            request.sequence.publish()
            self._line.lead(request)

    def finish(self, request_id: str, now: float) -> None:
        """End a request that generated a stop token; its output is complete and cached.

        Raises:
            InvalidRequest: No such request runs, or a plan is open.
        """
        request = self._running_between_plans(request_id)
        self._running.wake(request)
        self._lengths.add(len(request.output))
        self._end(request, RequestState.FINISHED, now)

    def preempt(self, request_id: str) -> None:
        """Throw a running request back to waiting; what it computed is published first.

        Raises:
            InvalidRequest: No such request runs, or a plan is open.
            WrongThread: Called from a second thread.
        """
        self._preempt(self._running_between_plans(request_id), PreemptReason.PRIORITY, Draft(0))

    def _running_between_plans(self, request_id: str) -> Request:
        self._guard.require()
        request = self._requests.get(request_id)
        if request is None or request.state is not RequestState.RUNNING or self._open_plan is not None:
            raise InvalidRequest(f"request {request_id!r} does not run between two plans")
        return request

    def discard(self, plan: StepPlan) -> list[Request]:
        """Give up a plan whose step failed: nothing of it counts as computed.

        Requests that waited for page copies in it are thrown back, as nobody knows whether those ran.

        Returns:
            The requests thrown back.

        Raises:
            PlanError: Not the open plan.
        """
        self._guard.require()
        self._require_open(plan)
        self._open_plan = None
        targets = {copy.target for copy in plan.copies}
        draft = Draft(0)
        for row in plan.rows:
            sequence = row.request.sequence
            if sequence is not None and targets.intersection(sequence.page_table.tolist()):
                self._preempt(row.request, PreemptReason.STEP_FAILED, draft)
        return draft.preempted

    def _require_open(self, plan: StepPlan) -> None:
        if plan is not self._open_plan:
            open_now = "none" if self._open_plan is None else f"plan {self._open_plan.number}"
            raise PlanError(f"plan {plan.number} is not the open one, which is {open_now}")
