"""A07: ten thousand requests through every way a request can end; at idle nothing is held."""

import random
from collections import Counter

import pytest

from radixcache import CacheConfig, NullPrefixCache, PrefixCache, check
from scheduler import Request, RequestState, RequestTooLong, Scheduler, SchedulerConfig

ENDS = (
    "length",
    "stop token",
    "abort in queue",
    "abort in prefill",
    "abort in decode",
    "abort in plan",
    "abort when thrown back",
    "step fails",
    "outgrows",
    "refused",
)
PAGE_SIZE = 4


class Mill:
    """Grinds requests, each towards the end that was drawn for it; most meet it, others finish by length."""

    def __init__(self, cache: type[PrefixCache], seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = cache(CacheConfig(num_pages=48, page_size=PAGE_SIZE, partial_reuse=cache is PrefixCache))
        settings = SchedulerConfig(token_budget=64, prefill_chunk_tokens=16, max_running=8)
        self.scheduler = Scheduler(self.cache, settings)
        self.ends: Counter[str] = Counter()
        self.plan_to: dict[str, str] = {}
        self.live: dict[str, Request] = {}
        self.num_made = self.now = 0

    def submit(self) -> None:
        rng = self.rng
        end = rng.choice(ENDS)
        prompt = [100 * rng.randrange(4) + i for i in range(rng.randrange(1, 24))] + [rng.randrange(900, 999)]
        if end == "refused":
            prompt = [7] * (48 * PAGE_SIZE + 1)
        output_len = None if end in ("stop token", "outgrows") else rng.randrange(1, 8)
        if end == "outgrows" and rng.random() < 0.9:
            output_len = 40
        name = f"r{self.num_made}"
        self.num_made += 1
        request = Request.of(name, prompt, output_len, write=rng.random() < 0.9, read=rng.random() < 0.9)
        try:
            self.scheduler.submit(request, self.now)
        except RequestTooLong:
            self.ends["refused"] += 1
            return
        self.plan_to[name], self.live[name] = end, request
        if end == "abort in queue" and rng.random() < 0.5:
            self.abort(name)

    def abort(self, name: str) -> None:
        state = self.live[name].state
        assert self.scheduler.abort(name, self.now)
        self.settle(name, f"abort {state}")

    def settle(self, name: str, end: str) -> None:
        self.ends[end] += 1
        del self.plan_to[name], self.live[name]

    def step(self) -> None:
        self.now += 1
        plan = self.scheduler.schedule(self.now)
        for request in plan.failed:
            self.settle(request.request_id, "outgrows")
        rows = [row.request.request_id for row in plan.rows]
        if plan and any(self.plan_to[name] == "step fails" for name in rows) and self.rng.random() < 0.5:
            self.scheduler.discard(plan)
            self.ends["discard"] += 1
        elif plan:
            outputs = {
                row.request.request_id: [self.rng.randrange(2000, 2008) for _ in range(row.max_tokens)]
                for row in plan.rows
                if row.max_tokens
            }
            for name in rows:
                if self.plan_to[name] == "abort in plan":
                    self.abort(name)
            for request in self.scheduler.commit(plan, outputs, self.now):
                self.settle(request.request_id, "length")
        self.between_plans()

    def between_plans(self) -> None:
        for name, request in list(self.live.items()):
            end, state = self.plan_to[name], request.state
            decodes = bool(request.output)
            if end == "stop token" and state is RequestState.RUNNING and len(request.output) > 2:
                self.scheduler.finish(name, self.now)
                self.settle(name, "stop token")
            elif (
                (end == "abort in queue" and state is RequestState.WAITING and self.rng.random() < 0.3)
                or (end == "abort in prefill" and state is RequestState.RUNNING and not decodes)
                or (end == "abort in decode" and state is RequestState.RUNNING and decodes)
                or (end == "abort when thrown back" and state is RequestState.PREEMPTED)
            ):
                self.abort(name)


@pytest.mark.parametrize(("cache", "num_requests"), [(PrefixCache, 10_000), (NullPrefixCache, 3_000)])
def test_thousands_of_requests_leave_nothing_behind(cache, num_requests):
    mill = Mill(cache, seed=7)
    while mill.num_made < num_requests or not mill.scheduler.is_idle:
        while mill.num_made < num_requests and mill.scheduler.num_waiting < 6:
            mill.submit()
        mill.step()
        if mill.now % 10 == 0:
            check(mill.cache)
    check(mill.cache)
    pages, stats = mill.cache.pages, mill.cache.stats
    assert (pages.locked, pages.private, stats.live_sequences) == (0, 0, 0)
    assert mill.live == {}
    met = {
        "length",
        "stop token",
        "abort waiting",
        "abort running",
        "abort preempted",
        "outgrows",
        "refused",
        "discard",
    }
    assert met <= set(mill.ends), mill.ends
    assert mill.cache.evict(1000) == pages.evictable
    assert mill.cache.pages.free == pages.total
