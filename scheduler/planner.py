"""How a step is planned: pages and rows for those that run, then as many of those that wait as fit."""

from radixcache import OutOfPages, PrefixCache
from scheduler.admission import Admission
from scheduler.config import SchedulerConfig
from scheduler.draft import Draft
from scheduler.errors import DeadlineMissed, PoolOutgrown
from scheduler.expectation import Expectation
from scheduler.plan import Decodes, Horizon, StepPlan
from scheduler.preemption import choose_victim
from scheduler.request import PreemptReason, Request, RequestState
from scheduler.roster import Roster
from scheduler.running import num_behind
from scheduler.stall import StallWatch

_MAX_COALESCED = 1 << 16


class StepPlanner:
    """Makes one plan after the other, and admits, throws back and ends requests as it goes.

    Args:
        cache: Where prefixes are found and pages come from.
        config: Settings of the scheduler.
        roster: Who waits and who runs.
        lengths: What is expected of outputs.

    Attributes:
        max_tokens: The most tokens with KV that one request can have.
    """

    def __init__(
        self, cache: PrefixCache, config: SchedulerConfig, roster: Roster, lengths: Expectation
    ) -> None:
        self.max_tokens = cache.config.num_pages * cache.config.page_size
        self._cache = cache
        self._config = config
        self._roster = roster
        self._line = roster.line
        self._running = roster.running
        self._admission = Admission(cache, lengths)
        self._stall = StallWatch(cache, config.max_empty_plans)
        self._num_plans = 0

    def plan(self, now: float, horizon: Horizon | None) -> StepPlan:
        """Plan the next step; the one before is taken in or given up.

        Args:
            now: The time.
            horizon: Says how many decode steps may be planned as one; `None`: one.

        Returns:
            The plan; empty when there is nothing to do.

        Raises:
            Stalled: See `StallWatch.note`.
        """
        draft = Draft(self._config.token_budget)
        self._expire(draft, now)
        self._extend_running(draft, now)
        num_running = len(self._running)
        if not draft.preempted:
            self._admit(draft, now)
        settled = len(self._running) == num_running and not draft.preempted
        if horizon is not None and settled and not self._line.has_deadlines:
            self._coalesce(draft, horizon)
        plan = draft.plan(self._num_plans)
        stuck = not (plan or plan.failed or plan.preempted or not len(self._roster))
        self._stall.note(is_stuck=stuck, num_waiting=len(self._line), num_running=len(self._running))
        self._num_plans += 1
        return plan

    def _expire(self, draft: Draft, now: float) -> None:
        """End new requests whose deadline passed while they waited."""
        for request in self._line.expired(now):
            request.error = DeadlineMissed(
                f"request {request.request_id!r} still waited at {now}, its deadline was {request.deadline}"
            )
            self._roster.end(request, RequestState.EXPIRED, now)
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
                extend_len = min(behind[number], draft.budget, self._config.chunk_tokens)
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
        behind = (min(num_behind(request), self._config.chunk_tokens) for request in running.awake.values())
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
                self._roster.throw_back(victim, PreemptReason.OUT_OF_PAGES)
                draft.drop(victim)
                draft.preempted.append(victim)
                if victim is request:
                    return False
            else:
                return True

    def _outgrown(self, request: Request, draft: Draft, now: float) -> None:
        request.error = PoolOutgrown(
            f"request {request.request_id!r} has {request.num_known} tokens and no page is left: the pool "
            f"holds at most {self.max_tokens}; pages: {self._cache.pages}"
        )
        self._roster.end(request, RequestState.FAILED, now)
        draft.drop(request)
        draft.failed.append(request)

    def _admit(self, draft: Draft, now: float) -> None:
        while draft.budget > 0 and len(self._running) < self._config.max_running:
            request = self._line.candidate(now, len(self._running), self._roster.num_ended)
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
        most_tokens = min(draft.budget, self._config.chunk_tokens)
        opened = self._admission.open(request, self._running, most_tokens)
        if opened is None:
            return False
        sequence, extend_len = opened
        self._roster.admit(request, sequence, now)
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
