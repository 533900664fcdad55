"""Counting on decodes together comes to the same as looking at every request in every step."""

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixcache import CacheConfig, NullPrefixCache, PrefixCache, Tokens, check
from radixcache.stats import CacheStats
from scheduler import (
    QUEUE_POLICIES,
    PolicyOptions,
    Request,
    RequestState,
    Scheduler,
    SchedulerConfig,
    StepPlan,
)
from scheduler.plan import Decodes
from tests.unit.scheduler.loop import ENDED, ids

ACTIONS = {"submit": 20, "step": 60, "abort": 2, "finish": 2, "preempt": 2, "fail": 3}


def generated(request: Request, start: int, stop: int) -> Tokens:
    first = 10_000_000 + 1000 * request.number
    return Tokens(range(first + start, first + stop))


@dataclass(frozen=True)
class World:
    """What is drawn before the first request comes."""

    num_pages: int
    page_size: int
    cache: type[PrefixCache]
    partial_reuse: bool
    priority_step: int | None
    policy: str
    token_budget: int
    chunk: int | None
    max_running: int


class Side:
    """One scheduler, its cache and its requests."""

    def __init__(self, world: World, *, counted: bool) -> None:
        self.cache = world.cache(
            CacheConfig(
                num_pages=world.num_pages, page_size=world.page_size, partial_reuse=world.partial_reuse
            )
        )
        config = SchedulerConfig(
            policy=world.policy,
            policy_options=PolicyOptions(quantum=4),
            token_budget=world.token_budget,
            prefill_chunk_tokens=world.chunk,
            max_running=world.max_running,
            priority_step=world.priority_step,
        )
        self.scheduler = Scheduler(self.cache, config, output_source=generated if counted else None)
        self.requests: list[Request] = []
        self.order_of_end: list[str] = []
        self.scheduler.subscribe(self)

    def submitted(self, request: Request, now: float) -> None:
        pass

    def ended(self, request: Request, now: float) -> None:
        self.order_of_end.append(request.request_id)

    def submit(self, number: int, prompt: list[int], output_len: int | None, now: int, **hints) -> None:
        request = Request.of(f"r{number}", prompt, output_len, **hints)
        self.requests.append(request)
        self.scheduler.submit(request, now)

    def outputs(self, plan: StepPlan) -> dict[str, Tokens]:
        made = {}
        for row in plan.rows:
            if row.max_tokens:
                start = len(row.request.output)
                made[row.request.request_id] = generated(row.request, start, start + row.max_tokens)
        return made

    def load(self, plan: StepPlan) -> tuple[int, int, int, int]:
        """Rows, tokens, contexts and steps, however they are listed."""
        context = sum(row.start for row in plan.rows) + plan.decodes.context
        return len(plan.rows) + plan.decodes.num_rows, plan.num_tokens, context, plan.num_steps

    def states(self) -> list[tuple[RequestState, int, int | None, int | None]]:
        return [
            (each.state, each.num_preemptions, each.first_token_at, each.finished_at)
            for each in self.requests
        ]

    def ends(self) -> list[tuple[object, ...]]:
        return [
            (
                each.output,
                each.prefill_tokens,
                each.recomputed_tokens,
                each.matched_len,
                each.missed_tokens,
                each.first_scheduled_at,
            )
            for each in self.requests
        ]


class Twins:
    """Both sides, told the same."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.rng = world, random.Random(seed)
        self.sides = Side(world, counted=False), Side(world, counted=True)
        self.now = 0
        self.num_counted = self.most_counted = 0

    def act(self, action: str) -> None:
        self.now += 1
        getattr(self, action)()
        plain, counted = self.sides
        assert plain.states() == counted.states()
        assert plain.order_of_end == counted.order_of_end
        assert plain.cache.pages == counted.cache.pages
        assert plain.scheduler.num_waiting == counted.scheduler.num_waiting
        check(counted.cache)

    def submit(self) -> None:
        rng, usable = self.rng, self.world.num_pages * self.world.page_size
        prompt = ids(100 * rng.randrange(3), rng.randrange(1, max(2, min(24, usable - 2))))
        prompt += ids(1000 + 10 * rng.randrange(50), rng.randrange(4))
        output_len = rng.choice([1, 2, 3, rng.randrange(1, 30), None])
        if len(prompt) + (output_len or 1) - 1 > usable:
            return
        hints = {"client": rng.choice("ab"), "priority": rng.choice([0, 0, 1]), "write": rng.random() < 0.9}
        for side in self.sides:
            side.submit(len(side.requests), prompt, output_len, self.now, **hints)

    def step(self, *, fails: bool = False) -> None:
        num_steps = self.rng.choice([None, 1, 2, 5, 40])
        horizon = None if num_steps is None else self.horizon(num_steps)
        plans = [side.scheduler.schedule(self.now, horizon) for side in self.sides]
        assert self.sides[0].load(plans[0]) == self.sides[1].load(plans[1])
        thrown_out, thrown_out_too = ([each.request_id for each in plan.preempted] for plan in plans)
        assert thrown_out == thrown_out_too
        self.num_counted += plans[1].decodes.num_rows
        self.most_counted = max(self.most_counted, plans[1].decodes.num_rows)
        if not plans[0]:
            return
        aborted = self.someone(RequestState.RUNNING) if self.rng.random() < 0.1 else None
        for side, plan in zip(self.sides, plans, strict=True):
            outputs = side.outputs(plan)
            if aborted is not None:
                side.scheduler.abort(aborted, self.now)
            if fails:
                side.scheduler.discard(plan)
            else:
                side.scheduler.commit(plan, outputs, self.now + 1)

    @staticmethod
    def stats(side: Side) -> CacheStats:
        """Without how many calls the evicted pages went in."""
        return replace(side.cache.stats, evictions=0, num_ghosts=0)

    @staticmethod
    def horizon(num_steps: int):
        def at_most(decodes: Decodes) -> int:
            assert decodes.num_rows
            return num_steps

        return at_most

    def fail(self) -> None:
        self.step(fails=True)

    def someone(self, state: RequestState) -> str | None:
        names = [each.request_id for each in self.sides[0].requests if each.state is state]
        return self.rng.choice(names) if names else None

    def abort(self) -> None:
        names = [each.request_id for each in self.sides[0].requests if each.state not in ENDED]
        if names:
            name = self.rng.choice(names)
            for side in self.sides:
                assert side.scheduler.abort(name, self.now)

    def finish(self) -> None:
        name = self.someone(RequestState.RUNNING)
        if name is not None:
            for side in self.sides:
                side.scheduler.finish(name, self.now)

    def preempt(self) -> None:
        name = self.someone(RequestState.RUNNING)
        if name is not None:
            for side in self.sides:
                side.scheduler.preempt(name)

    def drain(self) -> None:
        for _ in range(3000):
            if self.sides[0].scheduler.is_idle:
                break
            endless = [each for each in self.sides[0].requests if each.max_new_tokens is None]
            self.act("finish" if endless and self.rng.random() < 0.2 else "step")
        plain, counted = self.sides
        assert plain.scheduler.is_idle
        assert counted.scheduler.is_idle
        assert plain.ends() == counted.ends()
        assert self.stats(plain) == self.stats(counted)
        for request in counted.requests:
            assert request.output == list(generated(request, 0, len(request.output)))


def play(world: World, actions: list[str], seed: int) -> Twins:
    twins = Twins(world, seed)
    for action in actions:
        twins.act(action)
    twins.drain()
    return twins


@st.composite
def worlds(draw) -> World:
    return World(
        num_pages=draw(st.integers(5, 40)),
        page_size=draw(st.sampled_from([1, 2, 4])),
        cache=draw(st.sampled_from([PrefixCache, PrefixCache, NullPrefixCache])),
        partial_reuse=draw(st.booleans()),
        priority_step=draw(st.sampled_from([None, None, 7])),
        policy=draw(st.sampled_from(sorted(QUEUE_POLICIES))),
        token_budget=draw(st.sampled_from([2, 5, 16, 64])),
        chunk=draw(st.sampled_from([None, None, 3])),
        max_running=draw(st.integers(1, 8)),
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.lists(st.sampled_from(sorted(ACTIONS)), max_size=60), st.integers(0, 2**32))
def test_any_schedule_comes_to_the_same(world, actions, seed):
    play(world, actions, seed)


def test_many_that_decode_at_once_come_to_the_same():
    world = World(
        num_pages=900,
        page_size=2,
        cache=PrefixCache,
        partial_reuse=False,
        priority_step=None,
        policy="fcfs",
        token_budget=400,
        chunk=None,
        max_running=64,
    )
    twins = play(world, [*["submit"] * 70, *["step"] * 12, *["submit"] * 20], seed=3)
    assert twins.most_counted > 32


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
def test_longer_schedules_come_to_the_same_and_meet_everything(policy):
    met = dict.fromkeys(("counted", "evictions", "preemptions", "hits", "finished"), 0)
    for seed in range(12):
        rng = random.Random(seed)
        page_size = rng.choice([1, 2, 4])
        world = World(
            num_pages=rng.randrange(40, 160) // page_size + 2,
            page_size=page_size,
            cache=PrefixCache,
            partial_reuse=rng.random() < 0.5 and page_size > 1,
            priority_step=None,
            policy=policy,
            token_budget=rng.choice([8, 64]),
            chunk=rng.choice([None, 4]),
            max_running=rng.randrange(2, 9),
        )
        twins = play(world, rng.choices([*ACTIONS], weights=[*ACTIONS.values()], k=150), seed)
        requests, stats = twins.sides[1].requests, twins.sides[1].cache.stats
        met["counted"] += twins.num_counted
        met["evictions"] += stats.evicted_pages
        met["hits"] += stats.matched_tokens
        met["preemptions"] += sum(each.num_preemptions for each in requests)
        met["finished"] += sum(each.state is RequestState.FINISHED for each in requests)
    assert all(met.values()), met
