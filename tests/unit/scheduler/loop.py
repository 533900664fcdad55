"""A scheduler with a cache of its own, driven by hand, with every invariant checked after every call."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from radixcache import CacheConfig, PrefixCache, check
from scheduler import Request, RequestState, Scheduler, SchedulerConfig, StepPlan
from scheduler.expectation import OutputLengths

ENDED = frozenset({RequestState.FINISHED, RequestState.ABORTED, RequestState.FAILED})


def ids(first: int, num_tokens: int) -> list[int]:
    return list(range(first, first + num_tokens))


class Loop:
    """Time is the number of calls so far; generated tokens count up from 1,000,000."""

    def __init__(
        self,
        num_pages: int = 64,
        page_size: int = 4,
        *,
        cache: type[PrefixCache] = PrefixCache,
        partial_reuse: bool = False,
        eviction: str = "lru",
        **settings: Any,
    ) -> None:
        config = CacheConfig(
            num_pages=num_pages, page_size=page_size, partial_reuse=partial_reuse, eviction=eviction
        )
        self.cache = cache(config)
        self.lengths = OutputLengths()
        self.scheduler = Scheduler(self.cache, SchedulerConfig(**settings), self.lengths)
        self.now = 0
        self.plans: list[StepPlan] = []
        self._fresh = count(1_000_000)

    def submit(
        self, request_id: str, prompt: Sequence[int], max_new_tokens: int | None = 1, **hints: Any
    ) -> Request:
        request = Request.of(request_id, prompt, max_new_tokens, **hints)
        self.scheduler.submit(request, self._tick())
        check(self.cache)
        return request

    def abort(self, request_id: str) -> bool:
        was_there = self.scheduler.abort(request_id, self._tick())
        check(self.cache)
        return was_there

    def schedule(self, horizon: Callable[..., int] | None = None) -> StepPlan:
        plan = self.scheduler.schedule(self._tick(), horizon)
        check(self.cache)
        self.plans.append(plan)
        return plan

    def outputs(self, plan: StepPlan) -> dict[str, list[int]]:
        return {
            row.request.request_id: [next(self._fresh) for _ in range(row.max_tokens)]
            for row in plan.rows
            if row.max_tokens
        }

    def commit(self, plan: StepPlan, outputs: Mapping[str, Sequence[int]] | None = None) -> list[Request]:
        made = self.outputs(plan) if outputs is None else dict(outputs)
        finished = self.scheduler.commit(plan, made, self._tick())
        check(self.cache)
        return finished

    def discard(self, plan: StepPlan) -> list[Request]:
        preempted = self.scheduler.discard(plan)
        check(self.cache)
        return preempted

    def step(self) -> StepPlan:
        plan = self.schedule()
        if plan:
            self.commit(plan)
        return plan

    def run(self, max_steps: int = 10_000) -> list[StepPlan]:
        """Step until nobody is left."""
        first = len(self.plans)
        for _ in range(max_steps):
            if self.scheduler.is_idle:
                return self.plans[first:]
            self.step()
        raise AssertionError(f"not idle after {max_steps} steps")

    def warm(self, prompt: Sequence[int]) -> None:
        """Cache the full pages of `prompt`."""
        with self.cache.open(prompt, read=False) as seq:
            seq.reserve(len(prompt))
            seq.advance(len(prompt))
        check(self.cache)

    def let_expect(self, output_len: int) -> None:
        """Have seen so many outputs of that length that admission expects no more of anybody."""
        for _ in range(1024):
            self.lengths.add(output_len)

    def matched(self, prompt: Sequence[int]) -> int:
        """Tokens of `prompt` that are cached in full pages, its last one included."""
        return self.cache.peek([*prompt, 0]).matched_len

    def assert_nothing_is_held(self) -> None:
        pages = self.cache.pages
        assert (pages.private, pages.locked, self.cache.stats.live_sequences) == (0, 0, 0)

    def _tick(self) -> int:
        self.now += 1
        return self.now


def shape(plan: StepPlan) -> list[tuple[str, int, int, int]]:
    """Rows as (request, start, extend_len, max_tokens)."""
    return [(row.request.request_id, row.start, row.extend_len, row.max_tokens) for row in plan.rows]


def prefill_of(plans: Sequence[StepPlan], request: Request) -> list[tuple[int, int]]:
    """(start, extend_len) of each row of `request` that computed prompt tokens."""
    prompt_len = len(request.prompt)
    rows = [row for plan in plans for row in plan.rows if row.request is request]
    return [(row.start, row.extend_len) for row in rows if row.start < prompt_len]
