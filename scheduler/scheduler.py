"""The loop's two halves, and who may call them when: plan a step, take in what it brought."""

from collections.abc import Iterable

from radixcache import PrefixCache, Tokens
from radixcache.observer_errors import without
from scheduler.config import SchedulerConfig
from scheduler.errors import InvalidRequest, PlanError, QueueFull, RequestTooLong, Stalled
from scheduler.expectation import Expectation, OutputLengths
from scheduler.guard import Guard, guarded
from scheduler.observer import SchedulerObserver
from scheduler.outputs import checked_outputs
from scheduler.plan import Decodes, Horizon, Outputs, OutputSource, Row, StepPlan
from scheduler.planner import StepPlanner
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.roster import Roster
from scheduler.running import take_in


class Scheduler:
    """Decides which tokens of which requests are computed next. One thread; no device, no clock.

    Verbs raise `WrongThread` in a second thread, and `ReentrantCall` within another verb, as when an observer
    of the scheduler or of the cache calls back; that changed nothing. What an observer raises is raised once
    the verb is complete. Whatever else breaks a verb off halfway, such as a `KeyboardInterrupt`, leaves
    scheduler and cache half changed: every later verb raises `Interrupted`.

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
        self._guard = Guard(cache.observer_errors)
        self._roster = Roster(cache, config, output_source)
        self._lengths: Expectation = OutputLengths() if expectation is None else expectation
        self._planner = StepPlanner(cache, config, self._roster, self._lengths)
        self._open_plan: StepPlan | None = None

    def subscribe(self, observer: SchedulerObserver) -> None:
        """Tell `observer` of every request that comes or ends from now on."""
        self._roster.observers += (observer,)

    def unsubscribe(self, observer: SchedulerObserver) -> None:
        """Tell `observer` nothing more.

        Raises:
            InvalidArgument: It is not subscribed.
        """
        self._roster.observers = without(self._roster.observers, observer)

    # What there is

    @property
    def num_waiting(self) -> int:
        """Requests that wait, preempted ones included."""
        return len(self._roster.line)

    @property
    def num_running(self) -> int:
        """Requests that run."""
        return len(self._roster.running)

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits or runs."""
        return not len(self._roster)

    @property
    def max_tokens(self) -> int:
        """The most tokens with KV that one request can have."""
        return self._planner.max_tokens

    # Coming and going

    @guarded
    def submit(self, request: Request, now: float) -> None:
        """Let a request wait.

        Raises:
            QueueFull: As many wait as may.
            RequestTooLong: It can never fit, not even alone; says the largest length that can.
            InvalidRequest: Its id is taken, or it was submitted before.
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.

        Complexity:
            O(prompt) memcmp and O(log waiting).
        """
        if self._roster.find(request.request_id) is not None or request.state is not RequestState.NEW:
            raise InvalidRequest(f"request {request.request_id!r} was submitted before")
        if self.config.max_waiting is not None and self.num_waiting >= self.config.max_waiting:
            raise QueueFull(request.request_id, self.config.max_waiting)
        last_token_has_no_kv = 1
        num_tokens = len(request.prompt) + (request.max_new_tokens or 1) - last_token_has_no_kv
        if num_tokens > self.max_tokens:
            raise RequestTooLong(request.request_id, num_tokens, self.max_tokens)
        self._guard.is_changing = True
        self._roster.join(request, now)

    @guarded
    def abort(self, request_id: str, now: float, *, error: Exception | None = None) -> bool:
        """End a request, in whatever state. What it published stays cached.

        Args:
            request_id: Which request.
            now: The time.
            error: Why it cannot go on: a running request then counts as failed.

        Returns:
            Whether it was there to be ended.

        Raises:
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.
        """
        request = self._roster.find(request_id)
        if request is None:
            return False
        self._guard.is_changing = True
        request.error = error
        failed = error is not None and request.state is RequestState.RUNNING
        self._roster.end(request, RequestState.FAILED if failed else RequestState.ABORTED, now)
        return True

    # Planning

    @guarded
    def schedule(self, now: float, horizon: Horizon | None = None) -> StepPlan:
        """Plan the next step: running requests first, oldest first, then as many new ones as fit.

        Args:
            now: The time.
            horizon: Says how many decode steps may be planned as one; see `Horizon`. `None`: one.

        Returns:
            The plan, to be committed or discarded before the next call; empty when there is nothing to do:
            then neither, but `failed` may name requests.

        Raises:
            PlanError: The plan before was not committed.
            Stalled: Requests wait, and `max_empty_plans` plans in a row could not run any.
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.
            Exception: An observer raised it; the plan is discarded, and the next call plans anew.
        """
        if self._open_plan is not None:
            raise PlanError(f"plan {self._open_plan.number} is neither committed nor discarded")
        guard = self._guard
        guard.is_changing = True
        try:
            plan = self._planner.plan(now, horizon)
        except Stalled:
            guard.is_changing = False  # the plan was complete, and empty
            raise
        if guard.errors.noted:
            self._give_up(plan)  # nobody will get it
        elif plan:
            self._open_plan = plan
        return plan

    # Taking in

    @guarded
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
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.
            Exception: An observer raised it; the step is taken in, and each request says whether it finished.
        """
        self._require_open(plan)
        guard, running = self._guard, self._roster.running
        steady = running.steady
        tokens_of_all = None if steady is None else steady.tokens_in(outputs)
        if steady is not None and tokens_of_all is not None:
            guard.is_changing = True
            self._open_plan = None
            steady.take_in(tokens_of_all)
            self._count_outputs(steady.requests, 1)
            return []
        taken = checked_outputs(plan, outputs)
        guard.is_changing = True
        self._open_plan = running.steady = None
        self._count_on(plan.decodes)
        finished = []
        for row, tokens in taken:
            self._take_in(row, tokens, now)
            if row.request.remaining == 0:
                self._lengths.add(len(row.request.output))
                self._roster.end(row.request, RequestState.FINISHED, now)
                finished.append(row.request)
        return finished

    def _count_on(self, decodes: Decodes) -> None:
        """Those that are parked got a token in each step."""
        calendar = self._roster.running.calendar
        if decodes.num_rows:
            calendar.advance(decodes.num_steps)
            self._count_outputs(calendar.requests, decodes.num_steps)

    def _count_outputs(self, requests: Iterable[Request], num_tokens: int) -> None:
        """Each of them generated so many tokens."""
        line = self._roster.line
        if line.counts_outputs:
            for request in requests:
                line.generated(request, num_tokens)

    def _take_in(self, row: Row, tokens: Tokens, now: float) -> None:
        request, num_tokens = row.request, len(tokens)
        take_in(request, tokens, row.extend_len + max(0, num_tokens - 1))
        if num_tokens:
            if request.first_token_at is None:
                request.first_token_at = now
            self._roster.line.generated(request, num_tokens)
        if row.extend_len > 1 or row.start < request.prompt_len:
            assert request.sequence is not None
            request.sequence.publish()
            self._roster.line.lead(request)

    @guarded
    def finish(self, request_id: str, now: float) -> None:
        """End a request that generated a stop token; its output is complete and cached.

        Raises:
            InvalidRequest: No such request runs, or a plan is open.
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.
        """
        request = self._running_between_plans(request_id)
        self._guard.is_changing = True
        self._roster.running.wake(request)
        self._lengths.add(len(request.output))
        self._roster.end(request, RequestState.FINISHED, now)

    @guarded
    def preempt(self, request_id: str) -> None:
        """Throw a running request back to waiting; what it computed is published first.

        Raises:
            InvalidRequest: No such request runs, or a plan is open.
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.
        """
        request = self._running_between_plans(request_id)
        self._guard.is_changing = True
        self._roster.throw_back(request, PreemptReason.PRIORITY)

    def _running_between_plans(self, request_id: str) -> Request:
        request = self._roster.find(request_id)
        if request is None or request.state is not RequestState.RUNNING or self._open_plan is not None:
            raise InvalidRequest(f"request {request_id!r} does not run between two plans")
        return request

    @guarded
    def discard(self, plan: StepPlan) -> list[Request]:
        """Give up a plan whose step failed: nothing of it counts as computed.

        Requests that waited for page copies in it are thrown back, as nobody knows whether those ran.

        Returns:
            The requests thrown back.

        Raises:
            PlanError: Not the open plan.
            WrongThread, ReentrantCall, Interrupted: See `Scheduler`.
        """
        self._require_open(plan)
        self._guard.is_changing = True
        self._open_plan = None
        return self._give_up(plan)

    def _give_up(self, plan: StepPlan) -> list[Request]:
        """Throw back who waits for copies of a plan that is not run."""
        targets = {copy.target for copy in plan.copies}
        thrown_back = []
        for row in plan.rows:
            sequence = row.request.sequence
            if sequence is not None and targets.intersection(sequence.page_table.tolist()):
                self._roster.throw_back(row.request, PreemptReason.STEP_FAILED)
                thrown_back.append(row.request)
        return thrown_back

    def _require_open(self, plan: StepPlan) -> None:
        if plan is not self._open_plan:
            if not plan:
                raise PlanError(f"plan {plan.number} is empty: there is nothing to commit or to discard")
            open_now = "none" if self._open_plan is None else f"plan {self._open_plan.number}"
            raise PlanError(f"plan {plan.number} is not the open one, which is {open_now}")
