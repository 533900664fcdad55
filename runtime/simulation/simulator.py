"""One run of one workload through one cache."""

from collections.abc import Callable
from dataclasses import dataclass

from radixcache import NullPrefixCache, PrefixCache, RadixCacheError, Tokens
from runtime.clock import PS_PER_S, VirtualClock, seconds
from runtime.errors import ContextExceeded
from runtime.executor import CostModelExecutor, Executor
from runtime.result import BASELINE_LABEL, CACHE_LABEL, RequestRecord, RunResult
from runtime.simulation.arrivals import Arrival, Arrivals, Pace
from runtime.simulation.recorder import Timeline, record_of
from runtime.simulation.tree_picture import tree_picture
from runtime.workload import Workload
from scheduler import Request, Scheduler
from scheduler.plan import Decodes

_FIRST_SAMPLING_PS = PS_PER_S // 20


@dataclass(slots=True)
class _Tally:
    """What the loop counts by itself."""

    num_steps: int = 0
    busy_ps: int = 0
    output_tokens: int = 0
    last_arrival_ps: int = 0
    backlog_at_last_arrival: int = 0
    num_preemptions: int = 0
    num_never_sent: int = 0


class Simulation:
    """Serves a workload through the very scheduler and cache that an engine embeds.

    Time passes by what each step takes, as its executor says: `CostModelExecutor` reckons it, others measure
    it. Between arrivals nothing is waited for.

    Args:
        workload: What arrives.
        pace: When it arrives.
        cache: Finds prefixes and hands out pages.
        scheduler: Uses that cache.
        executor: Runs the steps, or reckons them.
        on_progress: Called with the number of turns that were settled since the last call.
        on_settled: Called with each request that has ended or was refused.
        coalesce: Plan decode steps between two events as one, where the executor reckons. Changes no result,
            only the wall time.
        max_context: Tokens of prompt and output together at most; `None`: as the pool holds.
    """

    def __init__(
        self,
        workload: Workload,
        pace: Pace,
        *,
        cache: PrefixCache,
        scheduler: Scheduler,
        executor: Executor,
        on_progress: Callable[[int], None] = lambda _: None,
        on_settled: Callable[[Request], None] = lambda _: None,
        coalesce: bool = True,
        max_context: int | None = None,
    ) -> None:
        self._arrivals = Arrivals(workload, pace)
        self._cache = cache
        self._scheduler = scheduler
        self._executor = executor
        self._on_progress = on_progress
        self._on_settled = on_settled
        self._reckoning = executor if coalesce and isinstance(executor, CostModelExecutor) else None
        self._max_context = max_context
        self._clock = VirtualClock()
        self._timeline = Timeline(cache, scheduler, _FIRST_SAMPLING_PS)
        self._in_system: dict[str, Arrival] = {}
        self._records: list[tuple[tuple[int, int], RequestRecord]] = []
        self._tally = _Tally()

    def run(self) -> RunResult:
        """Serve everything. As deterministic as the executor: no wall time, no environment, no randomness.

        Raises:
            Stalled: The scheduler found no way on.
        """
        while True:
            now_ps = self._clock.now_ps()
            self._submit_due(now_ps)
            if self._scheduler.is_idle:
                next_ps = self._arrivals.next_time()
                if next_ps is None:
                    break
                self._clock.advance_to(next_ps)
                continue
            self._step(now_ps)
        self._timeline.sample(self._clock.now_ps(), self._tally.output_tokens)
        return self._result()

    def _submit_due(self, now_ps: int) -> None:
        for arrival in self._arrivals.due(now_ps):
            turn = arrival.turn
            prompt = Tokens.trusted(self._arrivals.prompt(arrival).tobytes())
            request = Request(
                arrival.request_id, prompt, turn.output_len, turn.namespace, client=arrival.session.tenant
            )
            self._tally.last_arrival_ps = arrival.time_ps
            try:
                self._require_context(request)
                self._scheduler.submit(request, arrival.time_ps)
            except RadixCacheError as error:
                self._settle(arrival, request, now_ps, error)
                continue
            self._in_system[request.request_id] = arrival
            self._tally.backlog_at_last_arrival = self._scheduler.num_waiting

    def _require_context(self, request: Request) -> None:
        num_tokens = request.prompt_len + (request.max_new_tokens or 0)
        if self._max_context is not None and num_tokens > self._max_context:
            raise ContextExceeded(request.request_id, num_tokens, self._max_context)

    def _step(self, now_ps: int) -> None:
        plan = self._scheduler.schedule(now_ps, self._horizon if self._reckoning else None)
        tally = self._tally
        tally.num_preemptions += len(plan.preempted)
        for request in plan.failed:
            self._settle(self._in_system.pop(request.request_id), request, now_ps)
        if not plan:
            return
        output = self._executor.execute(plan)
        for error in output.errors.values():
            raise error
        tally.num_steps += plan.num_steps
        tally.busy_ps += output.elapsed_ps
        tally.output_tokens += sum(map(len, output.tokens.values()))
        tally.output_tokens += plan.decodes.num_rows * plan.decodes.num_steps
        end_ps = now_ps + output.elapsed_ps
        self._clock.advance_to(end_ps)
        for request in self._scheduler.commit(plan, dict(output.tokens), end_ps):
            self._settle(self._in_system.pop(request.request_id), request, end_ps)
        self._timeline.tick(end_ps, tally.output_tokens)

    def _horizon(self, decodes: Decodes) -> int:
        """Decode steps until somebody new is looked at, or a sample is due."""
        arrival_ps, until_ps = self._arrivals.next_time(), self._timeline.next_ps
        if arrival_ps is not None:
            until_ps = min(until_ps, arrival_ps)
        assert self._reckoning is not None
        return self._reckoning.steps_until(decodes, until_ps - self._clock.now_ps())

    def _settle(
        self, arrival: Arrival, request: Request, now_ps: int, error: RadixCacheError | None = None
    ) -> None:
        record = record_of(arrival, request, error)
        self._on_settled(request)
        self._records.append(((arrival.time_ps, arrival.order), record))
        if record.status == "finished":
            self._arrivals.finished(arrival, request.output, now_ps)
            self._on_progress(1)
        else:
            num_lost = self._arrivals.broken_off(arrival, now_ps)
            self._tally.num_never_sent += num_lost
            self._on_progress(1 + num_lost)

    def _result(self) -> RunResult:
        tally, stats = self._tally, self._cache.stats
        last_arrival_s = seconds(tally.last_arrival_ps)
        return RunResult(
            label=BASELINE_LABEL if isinstance(self._cache, NullPrefixCache) else CACHE_LABEL,
            requests=[record for _, record in sorted(self._records, key=lambda pair: pair[0])],
            timeline=self._timeline.samples(),
            counters={
                "steps": tally.num_steps,
                "preemptions": tally.num_preemptions,
                "turns never sent": tally.num_never_sent,
                "evictions": stats.evicted_pages,
                "published pages": stats.published_pages,
                "duplicate pages": stats.duplicate_pages,
                "tree nodes at the end": stats.num_nodes,
                "resumed prompt tokens": stats.resumed_tokens,
                "resumed matched tokens": stats.resumed_matched_tokens,
            },
            makespan_s=seconds(self._clock.now_ps()),
            last_arrival_s=last_arrival_s,
            offered_load=seconds(tally.busy_ps) / last_arrival_s if last_arrival_s else 0.0,
            backlog_at_last_arrival=tally.backlog_at_last_arrival,
            tree=tree_picture(self._cache),
        )
