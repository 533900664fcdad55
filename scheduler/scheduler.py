"""The loop's two halves: plan a step, take in what it brought."""

import threading

from radixcache import OutOfPages, PrefixCache, Sequence, Tokens
from radixcache.errors import InvalidArgument
from scheduler.admission import fits
from scheduler.config import SchedulerConfig
from scheduler.draft import Draft
from scheduler.errors import (
    DeadlineMissed,
    InvalidRequest,
    PlanError,
    PoolOutgrown,
    QueueFull,
    RequestTooLong,
    Stalled,
    WrongThread,
)
from scheduler.expectation import Expectation, OutputLengths
from scheduler.line import WaitingLine
from scheduler.observer import SchedulerObserver
from scheduler.outputs import checked_outputs
from scheduler.plan import Horizon, Outputs, Row, StepPlan
from scheduler.preemption import choose_victim
from scheduler.request import PreemptReason, Request, RequestState

_MAX_COALESCED = 1 << 16


class Scheduler:
    """Decides which tokens of which requests are computed next. One thread; no device, no clock.

    There are no phases: every running request has known tokens without KV, and each step computes some of
    them within a token budget. `schedule` makes a plan, an executor runs it, `commit` takes in the outputs.

    Args:
        cache: Where prefixes are found and pages come from.
        config: Settings.
        expectation: How long outputs will get; `None`: as those that finished.

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
        self, cache: PrefixCache, config: SchedulerConfig, expectation: Expectation | None = None
    ) -> None:
        self.config = config
        self._cache = cache
        self._line = WaitingLine(cache, config)
        self._requests: dict[str, Request] = {}
        self._running: dict[int, Request] = {}
        self._lengths: Expectation = OutputLengths() if expectation is None else expectation
        self._next_number = 0
        self._num_plans = 0
        self._num_ended = 0
        self._num_empty_plans = 0
        self._open_plan: StepPlan | None = None
        self._thread: int | None = None
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
        self._require_thread()
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
        for observer in self._observers:
            observer.submitted(request, now)

    def abort(self, request_id: str, now: float) -> bool:
        """End a request, in whatever state. What it published stays cached.

        Returns:
            Whether it was there to be ended.
        """
        self._require_thread()
        request = self._requests.get(request_id)
        if request is None:
            return False
        self._end(request, RequestState.ABORTED, now)
        return True

    def _end(self, request: Request, state: RequestState, now: float) -> None:
        if request.state is not RequestState.RUNNING:
            self._line.leave(request)
        request.enter(state)
        request.finished_at = now
        if request.sequence is not None:
            if state is RequestState.FINISHED:
                request.sequence.close()
            else:
                request.sequence.abort()
            request.sequence = None
        if self._running.pop(request.number, None) is not None:
            self._num_ended += 1
            self._line.stop_leading(request)
        del self._requests[request.request_id]
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
        self._require_thread()
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
        self._watch_for_stall(plan)
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
        """Rows for all running requests, decodes before prefills, oldest first."""
        behind = {number: self._num_behind(request) for number, request in self._running.items()}
        order = sorted(behind, key=lambda number: (behind[number] > 1, number))
        for number in order:
            request = self._running.get(number)
            if request is None:
                continue
            extend_len = min(behind[number], draft.budget, self.config.chunk_tokens)
            if extend_len and self._reserve(request, extend_len, draft, now):
                draft.add(request, extend_len)

    @staticmethod
    def _num_behind(request: Request) -> int:
        """Known tokens without KV."""
        assert request.sequence is not None
        return request.sequence.num_tokens - request.sequence.computed_len

    def _reserve(self, request: Request, extend_len: int, draft: Draft, now: float) -> bool:
        """Get pages for a running request, throwing others back if it has to be, in the end itself."""
        assert request.sequence is not None
        while True:
            try:
                request.sequence.reserve(extend_len)
            except OutOfPages:
                victim = choose_victim(self._running.values())
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
        assert request.sequence is not None
        request.enter(RequestState.PREEMPTED)
        request.num_preemptions += 1
        request.ended_before = self._num_ended
        if reason is PreemptReason.STEP_FAILED:
            request.sequence.abort()
        else:
            request.sequence.close()
        request.sequence = None
        del self._running[request.number]
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
        cache, resumed = self._cache, request.state is RequestState.PREEMPTED
        sequence = cache.open(
            request.known_tokens(),
            request.namespace,
            read=request.read,
            write=request.write,
            resumed=resumed,
            priority=request.priority,
            retain=request.retain,
        )
        page_size = cache.config.page_size
        request.own_from = sequence.matched_len
        extend_len = min(sequence.num_tokens - sequence.computed_len, draft.budget, self.config.chunk_tokens)
        try:
            fitting = not self._running or fits(
                list(self._running.values()),
                request,
                available=cache.pages.available,
                num_pages=cache.config.num_pages,
                page_size=page_size,
                lengths=self._lengths,
            )
            if fitting:
                sequence.reserve(extend_len)
        except OutOfPages:
            fitting = False
        except BaseException:
            sequence.abort()  # an observer or a policy raised: nobody else would end it
            raise
        if not fitting:
            sequence.abort()
            return False
        self._line.admit(request, len(request.prompt) - sequence.computed_len)
        if not resumed:
            self._note_first_admission(request, sequence, now)
        request.enter(RequestState.RUNNING)
        request.sequence = sequence
        self._running[request.number] = request
        self._line.lead(request)
        draft.add(request, max(0, extend_len - (sequence.computed_len - sequence.matched_len)))
        return True

    @staticmethod
    def _note_first_admission(request: Request, sequence: Sequence, now: float) -> None:
        request.first_scheduled_at = now
        request.matched_len = sequence.matched_len
        request.copied_len = sequence.computed_len - sequence.matched_len
        if sequence.miss is not None:
            missed = sequence.miss.tokens_by_reason()
            missed[sequence.miss.reason or sequence.miss.tail_reason] -= request.copied_len
            request.missed_tokens = {reason.value: count for reason, count in missed.items()}

    def _coalesce(self, draft: Draft, horizon: Horizon) -> None:
        """Plan several decode steps as one where nothing but decoding would happen in them."""
        rows = list(draft.rows.values())
        if not rows or any(row.extend_len > 1 or row.start < len(row.request.prompt) for row in rows):
            return
        limits = [row.request.remaining for row in rows]
        num_steps = min(horizon(rows), *(limit for limit in limits if limit is not None), _MAX_COALESCED)
        if num_steps <= 1 or not self._have_room(rows, num_steps):
            return
        for row in rows:
            assert row.request.sequence is not None
            row.request.sequence.reserve(num_steps)
        draft.coalesce(num_steps)

    def _have_room(self, rows: list[Row], num_steps: int) -> bool:
        """Whether there are pages for so many steps."""
        page_size, needed = self._cache.config.page_size, 0
        for row in rows:
            assert row.request.sequence is not None
            reserved = row.request.sequence.reserved_len // page_size
            needed += max(0, -(-(row.start + num_steps) // page_size) - reserved)
        return needed <= self._cache.pages.available

    def _watch_for_stall(self, plan: StepPlan) -> None:
        if plan or plan.failed or plan.preempted or self.is_idle:
            self._num_empty_plans = 0
            return
        self._num_empty_plans += 1
        if self._num_empty_plans >= self.config.max_empty_plans:
            raise Stalled(
                f"{self.num_waiting} requests wait, {self.num_running} run, and "
                f"{self._num_empty_plans} plans in a row were empty; pages: {self._cache.pages}"
            )

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
        self._require_thread()
        self._require_open(plan)
        taken = checked_outputs(plan, outputs)
        self._open_plan = None
        finished = []
        for row, tokens in taken:
            self._take_in(row, tokens, now)
            if row.request.remaining == 0:
                self._lengths.add(len(row.request.output))
                self._end(row.request, RequestState.FINISHED, now)
                finished.append(row.request)
        return finished

    def _take_in(self, row: Row, tokens: Tokens, now: float) -> None:
        request, sequence, num_tokens = row.request, row.request.sequence, len(tokens)
        assert sequence is not None
        if num_tokens:
            sequence.append(tokens)
            request.output.extend(tokens)
            if request.first_token_at is None:
                request.first_token_at = now
            self._line.generated(request, num_tokens)
        sequence.advance(row.extend_len + num_tokens - 1 if num_tokens else row.extend_len)
        request.note_computed(row.start, sequence.computed_len)
        if row.extend_len > 1 or row.start < request.prompt_len:
            sequence.publish()
            self._line.lead(request)

    def finish(self, request_id: str, now: float) -> None:
        """End a request that generated a stop token; its output is complete and cached.

        Raises:
            InvalidRequest: No such request runs, or a plan is open.
        """
        request = self._running_between_plans(request_id)
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
        self._require_thread()
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
        self._require_thread()
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

    def _require_thread(self) -> None:
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        elif thread != self._thread:
            raise WrongThread(f"the scheduler belongs to thread {self._thread}, not to {thread}")
