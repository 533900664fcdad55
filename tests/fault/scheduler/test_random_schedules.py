"""Random schedules in pools that are too small: nothing lost, nothing run twice, everybody ends."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixcache import EVICTION_POLICIES, NullPrefixCache, PrefixCache, check
from scheduler import Request, RequestState, RequestTooLong, StepPlan
from tests.fault.scheduler.toy_engine import ToyEngine, generate
from tests.unit.scheduler.loop import ENDED, Loop, ids

NAMESPACES = (None, None, None, "tenant")
ACTIONS = ("submit", "submit", "step", "step", "step", "abort", "failing step")


@dataclass(frozen=True)
class World:
    """What is drawn before the first request comes."""

    page_size: int
    num_pages: int
    policy: str
    cache: type[PrefixCache]
    eviction: str
    partial_reuse: bool
    token_budget: int
    chunk: int | None
    max_running: int


@st.composite
def worlds(draw) -> World:
    return World(
        page_size=draw(st.sampled_from([1, 2, 4])),
        num_pages=draw(st.integers(4, 24)),
        policy=draw(st.sampled_from(["fcfs", "lpm"])),
        cache=draw(st.sampled_from([PrefixCache, PrefixCache, PrefixCache, NullPrefixCache])),
        eviction=draw(st.sampled_from(sorted(EVICTION_POLICIES))),
        partial_reuse=draw(st.booleans()),
        token_budget=draw(st.sampled_from([1, 2, 5, 16, 64])),
        chunk=draw(st.sampled_from([None, None, 1, 3, 8])),
        max_running=draw(st.integers(1, 6)),
    )


class Serving:
    """One world, its toy engine, and what is known of every request."""

    def __init__(self, world: World, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = Loop(
            world.num_pages,
            world.page_size,
            cache=world.cache,
            partial_reuse=world.partial_reuse and world.cache is PrefixCache,
            eviction=world.eviction,
            policy=world.policy,
            token_budget=world.token_budget,
            prefill_chunk_tokens=world.chunk,
            max_running=world.max_running,
        )
        self.usable = world.num_pages * world.page_size
        self.engine = ToyEngine(self.usable, world.page_size, lambda most: self.rng.randint(1, most))
        self.requests: dict[str, Request] = {}
        self.stop_at: dict[str, int] = {}
        self.fails = 0.0
        self.preempted_for_pages: dict[str, int] = {}
        self.seen_ended: list[str] = []

    # What can happen

    def submit(self) -> None:
        rng = self.rng
        longest = max(2, min(20, self.usable - 2))
        prompt = ids(100 * rng.randrange(3), rng.randrange(1, longest)) + ids(
            1000 + 10 * rng.randrange(50), rng.randrange(4)
        )
        output_len = rng.choice([1, 1, 2, 3, rng.randrange(1, 16), None])
        name = f"r{len(self.requests)}"
        request = Request.of(
            name,
            prompt,
            output_len,
            namespace=rng.choice(NAMESPACES),
            read=rng.random() < 0.9,
            write=rng.random() < 0.9,
            priority=rng.choice([0, 0, 1]),
        )
        self.requests[name] = request
        if output_len is None:
            self.stop_at[name] = rng.randrange(1, 12) if rng.random() < 0.8 else 10**6
        if len(prompt) + (output_len or 1) - 1 > self.usable:
            del self.requests[name]
            with pytest.raises(RequestTooLong):
                self.loop.scheduler.submit(request, self.loop.now)
        else:
            self.loop.scheduler.submit(request, self.loop.now)
        check(self.loop.cache)

    def abort(self) -> None:
        alive = sorted(name for name, request in self.requests.items() if request.state not in ENDED)
        if alive:
            assert self.loop.abort(self.rng.choice(alive))

    def step(self) -> None:
        rng = self.rng
        horizon = rng.choice([None, lambda rows: rng.randint(1, 9)])
        plan = self.loop.schedule(horizon)
        self.check_plan(plan)
        if not plan:
            return
        if rng.random() < self.fails:
            self.engine.garble(plan)
            self.loop.discard(plan)
            return
        outputs = self.engine.execute(plan)
        if rng.random() < 0.1:
            self.abort()
        self.loop.commit(plan, outputs)
        for name, limit in list(self.stop_at.items()):
            request = self.requests.get(name)
            if request and request.state is RequestState.RUNNING and len(request.output) >= limit:
                self.loop.scheduler.finish(name, self.loop.now)
                check(self.loop.cache)

    def drain(self) -> None:
        self.fails = 0.0
        for _ in range(20_000):
            if self.loop.scheduler.is_idle:
                return
            self.step()
        raise AssertionError(f"somebody never ended: {self.requests}")

    # What must hold

    def check_plan(self, plan: StepPlan) -> None:
        config = self.loop.scheduler.config
        names = [row.request.request_id for row in plan.rows]
        assert len(set(names)) == len(names)
        assert plan.num_tokens <= config.token_budget
        assert len(plan.rows) <= self.loop.scheduler.num_running <= config.max_running
        for row in plan.rows:
            request, sequence = row.request, row.request.sequence
            assert request.state is RequestState.RUNNING
            assert row.start == sequence.computed_len
            assert 0 <= row.extend_len <= config.chunk_tokens
            assert row.extend_len or sequence.num_tokens > row.start
            assert (row.max_tokens > 0) == (row.start + row.extend_len == sequence.num_tokens)
            assert request.remaining is None or row.max_tokens <= request.remaining
            assert row.start + row.extend_len + max(0, row.max_tokens - 1) <= sequence.reserved_len
        for request in plan.preempted:
            name = request.request_id
            self.preempted_for_pages[name] = self.preempted_for_pages.get(name, 0) + 1

    def check_end(self) -> None:
        self.loop.assert_nothing_is_held()
        assert self.loop.scheduler.num_waiting == self.loop.scheduler.num_running == 0
        for name, request in self.requests.items():
            assert request.state in ENDED
            limit = request.max_new_tokens
            if request.state is RequestState.FINISHED and limit is not None:
                assert len(request.output) == limit
            if request.state is RequestState.FAILED:
                assert limit is None
                assert request.error is not None
            if request.output:
                assert request.output == generate(request.prompt, len(request.output), request.namespace)
            assert self.preempted_for_pages.get(name, 0) <= len(self.requests) - 1
            assert request.matched_len + request.copied_len < len(request.prompt)


def play(world: World, actions: list[str], seed: int) -> Serving:
    serving = Serving(world, seed)
    verbs: dict[str, Callable[[], None]] = {
        "submit": serving.submit,
        "abort": serving.abort,
        "step": serving.step,
    }
    for action in actions:
        if action == "failing step":
            serving.fails = 1.0
            serving.step()
            serving.fails = 0.0
        else:
            verbs[action]()
    serving.drain()
    serving.check_end()
    return serving


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    worlds(),
    st.lists(
        st.sampled_from(["submit", "submit", "step", "step", "step", "abort", "failing step"]), max_size=40
    ),
    st.integers(0, 2**32),
)
def test_any_schedule_ends_well(world, actions, seed):
    play(world, actions, seed)


def random_play(seed: int) -> Serving:
    rng = random.Random(seed)
    page_size = rng.choice([1, 2, 4])
    world = World(
        page_size=page_size,
        num_pages=rng.randrange(20, 60) // page_size + 2,
        policy=rng.choice(["fcfs", "lpm"]),
        cache=PrefixCache if rng.random() < 0.85 else NullPrefixCache,
        eviction=rng.choice(sorted(EVICTION_POLICIES)),
        partial_reuse=rng.random() < 0.5,
        token_budget=rng.choice([2, 8, 32]),
        chunk=rng.choice([None, 4]),
        max_running=rng.randrange(2, 9),
    )
    weights = {"submit": 30, "step": 60, "abort": 2, "failing step": 4}
    return play(world, rng.choices([*weights], weights=[*weights.values()], k=150), seed)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_longer_schedules_end_well_and_meet_everything_that_can_happen(first):
    met: dict[str, int] = {}
    for seed in range(first, first + 10):
        serving = random_play(seed)
        stats = serving.loop.cache.stats
        states = [request.state for request in serving.requests.values()]
        for name, number in {
            "hits": stats.matched_tokens,
            "copies": stats.copied_tokens,
            "evictions": stats.evicted_pages,
            "preemptions": sum(serving.preempted_for_pages.values()),
            "duplicates": stats.duplicate_pages,
            "finished": states.count(RequestState.FINISHED),
            "aborted": states.count(RequestState.ABORTED),
            "failed": states.count(RequestState.FAILED),
        }.items():
            met[name] = met.get(name, 0) + number
    assert all(met.values()), met
