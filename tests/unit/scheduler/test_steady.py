"""Steps that are made out of the step before are those that looking at every row gives."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcache import CacheConfig, PrefixCache, Tokens, check
from scheduler import PlanError, Request, Scheduler, SchedulerConfig
from scheduler.footprints import Footprints
from scheduler.plan import StepPlan
from scheduler.running import Running
from scheduler.steady import SteadyDecodes


class World:
    """A scheduler and all that can be seen of it; one of two that are told the same."""

    def __init__(self, policy: str, num_pages: int, *, steady: bool) -> None:
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=2))
        config = SchedulerConfig(policy=policy, token_budget=12, max_running=6)
        self.scheduler = Scheduler(self.cache, config)
        self.steady = steady
        self.requests: list[Request] = []
        self.ended: list[str] = []
        self.now = 0.0
        self.num_steady = 0

    def submit(self, rng: random.Random) -> None:
        number = len(self.requests)
        prompt = [rng.randrange(1, 4) for _ in range(rng.randrange(1, 9))]
        limit = rng.choice([1, 5, 20, 60])
        request = Request.of(f"r{number}", prompt, limit, client=rng.choice("ab"))
        self.requests.append(request)
        self.scheduler.submit(request, self.now)

    def step(self, rng: random.Random) -> list[object]:
        plan = self.scheduler.schedule(self.now)
        self.now += 1.0
        self.check_footprints()
        if not plan:
            return []
        seen = [(row.request.request_id, *row[1:], row.request.sequence.reserved_len) for row in plan.rows]
        if rng.random() < 0.05:
            return [*seen, "discarded", [each.request_id for each in self.scheduler.discard(plan)]]
        if rng.random() < 0.05:
            self.scheduler.abort(rng.choice(plan.rows).request.request_id, self.now)
        self.num_steady += self.scheduler._roster.running.steady is not None
        return [*seen, self.commit(plan, rng)]

    def check_footprints(self) -> None:
        steady = self.scheduler._roster.running.steady
        if steady is not None and self.now % 3:  # asked for late, and again after several steps
            candidate = self.requests[int(self.now) % len(self.requests)]
            expected = Footprints.of([*steady.requests, candidate])
            assert steady.footprints(candidate).columns.tolist() == expected.columns.tolist()

    def commit(self, plan: StepPlan, rng: random.Random) -> list[str]:
        ids = [row.request.request_id for row in plan.rows if row.max_tokens]
        values = {request_id: rng.randrange(1, 4) for request_id in ids}
        kind = rng.choice([list, list, tuple, Tokens, "mixed"])
        outputs = {
            request_id: (rng.choice([list, Tokens]) if kind == "mixed" else kind)([value])
            for request_id, value in values.items()
        }
        return [request.request_id for request in self.scheduler.commit(plan, outputs, self.now)]

    def event(self, rng: random.Random) -> object:
        running = sorted(each.request_id for each in self.scheduler._roster.running)
        chance = rng.random()
        if chance < 0.1:
            return self.submit(rng)
        if chance < 0.12 and running:
            return self.scheduler.preempt(rng.choice(running))
        if chance < 0.14 and running:
            return self.scheduler.finish(rng.choice(running), self.now)
        return self.step(rng)

    def seen(self) -> list[object]:
        return [
            (
                each.state,
                each.output,
                each.ever_computed,
                each.recomputed_tokens,
                each.first_token_at,
                each.finished_at,
                each.sequence
                and (each.sequence.num_tokens, each.sequence.computed_len, each.sequence.page_table.tolist()),
            )
            for each in self.requests
        ]


def play(policy: str, num_pages: int, seed: int, num_events: int) -> int:
    """The same events with and without; returns how many steps were steady."""
    worlds = [World(policy, num_pages, steady=steady) for steady in (True, False)]
    rngs = [random.Random(seed), random.Random(seed)]
    for _ in range(num_events):
        results = []
        for world, rng in zip(worlds, rngs, strict=True):
            if not world.steady:
                world.scheduler._roster.running.note_rows = lambda rows: None
            results.append(world.event(rng))
        assert results[0] == results[1]
        assert worlds[0].seen() == worlds[1].seen()
        check(worlds[0].cache)
    assert worlds[1].num_steady == 0
    return worlds[0].num_steady


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["lpm", "fair"]), st.integers(36, 120), st.integers(0, 2**32))
def test_every_step_is_what_looking_at_every_row_gives(policy, num_pages, seed):
    play(policy, num_pages, seed, 120)


def test_most_steps_of_a_long_run_are_steady():
    assert sum(play("fair", 200, seed, 300) for seed in range(4)) > 200


def steady_pair(limit: int = 100) -> tuple[Scheduler, list[Request]]:
    """Two requests that have decoded for a while."""
    scheduler = Scheduler(PrefixCache(CacheConfig(num_pages=64, page_size=4)), SchedulerConfig())
    requests = [Request.of(name, [1, 2, 3, ord(name)], limit) for name in "ab"]
    for request in requests:
        scheduler.submit(request, 0.0)
    for _ in range(4):
        scheduler.commit(scheduler.schedule(0.0), {"a": [5], "b": [6]}, 0.0)
    assert scheduler._roster.running.steady is not None
    return scheduler, requests


@pytest.mark.parametrize(
    "outputs",
    [
        {"a": [7]},
        {"a": [7], "b": []},
        {"a": [7], "b": [8, 9]},
        {"a": [7], "b": [-1]},
        {"a": [7], "b": [2**31]},
        {"a": [7], "b": ["8"]},
        {"a": [7], "b": 8},
        {"a": [7], "b": {8}},
        {"a": Tokens([7]), "b": Tokens([8, 9])},
        {"a": [7], "c": [8]},
        {"a": [7], "b": [8], "c": [9]},
        [("a", [7]), ("b", [8])],
    ],
)
def test_outputs_that_do_not_fit_a_steady_step_are_refused_and_change_nothing(outputs):
    scheduler, requests = steady_pair()
    plan = scheduler.schedule(1.0)
    before = [(list(each.output), each.sequence.computed_len, each.ever_computed) for each in requests]
    with pytest.raises(PlanError):
        scheduler.commit(plan, outputs, 1.0)
    assert [(each.output, each.sequence.computed_len, each.ever_computed) for each in requests] == before
    assert scheduler.commit(plan, {"a": [7], "b": [8]}, 1.0) == []
    assert [each.output[-1] for each in requests] == [7, 8]


def test_a_steady_request_ends_with_its_last_token():
    scheduler, requests = steady_pair(limit=6)
    ended = []
    while not scheduler.is_idle:
        ended += scheduler.commit(scheduler.schedule(1.0), {"a": [7], "b": [8]}, 1.0)
    assert ended == requests
    assert [len(each.output) for each in requests] == [6, 6]


def test_a_row_that_computes_again_or_its_prompt_is_not_steady():
    scheduler, _ = steady_pair()
    rows = scheduler.schedule(1.0).rows
    assert SteadyDecodes.of(rows) is not None
    assert SteadyDecodes.of([]) is None
    assert SteadyDecodes.of([rows[0], rows[1]._replace(extend_len=2)]) is None
    assert SteadyDecodes.of([rows[0], rows[1]._replace(start=3)]) is None
    assert SteadyDecodes.of([rows[0]._replace(max_tokens=2)]) is None
    rows[0].request.ever_computed = rows[0].start + 1
    assert SteadyDecodes.of(rows) is None


def test_who_runs_is_stirred_by_whoever_comes_or_goes():
    running = Running(2, None)
    running.note_rows([])
    running.add(Request.of("a", [1], 1))
    assert running.steady is None
    assert not running._is_calm


def test_steps_stay_steady_while_others_come_and_go_in_the_queue():
    scheduler, _ = steady_pair()
    steady = scheduler._roster.running.steady
    for number in range(3):
        waiting = Request.of(f"waits {number}", range(200), 50)
        scheduler.submit(waiting, 1.0)
        scheduler.commit(scheduler.schedule(1.0), {"a": [7], "b": [8]}, 1.0)
        assert waiting.sequence is None
        assert scheduler._roster.running.steady is steady
        scheduler.abort(waiting.request_id, 1.0)
        assert scheduler._roster.running.steady is steady
