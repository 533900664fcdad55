"""Decode steps planned as one change no result: the same bytes as step by step."""

from dataclasses import replace
from functools import cache as remembered
from typing import Any

import numpy as np
import pytest

from radixcache import EVICTION_POLICIES, NullPrefixCache, PrefixCache
from runtime.result import RunResult
from runtime.simulation import ClosedLoop, OpenLoop
from runtime.workload import Poisson, Workload, find_generator
from runtime.workload.draws import Lengths
from tests.unit.runtime.simulated import as_bytes, follow_up, simulate, turn, workload

SHORT = Lengths(median=20, sigma=0.6, low=4, high=60)
FAST = Poisson(rate_per_s=30.0)


@remembered
def load_named(name: str) -> Workload:
    small: dict[str, dict[str, Any]] = {
        "chat": {
            "num_sessions": 12,
            "arrivals": FAST,
            "num_system_prompts": 3,
            "system_len": SHORT,
            "user_len": SHORT,
            "output_len": SHORT,
            "mean_think_s": 0.3,
            "mean_turns": 3.0,
        },
        "agents": {"num_sessions": 5, "arrivals": FAST, "prefix_len": SHORT, "task_len": SHORT},
        "few-shot": {"num_questions": 30, "num_tasks": 3, "example_len": SHORT},
        "tree-of-thought": {"num_sessions": 4, "arrivals": FAST},
        "rag": {"num_sessions": 10, "arrivals": FAST, "document_len": SHORT, "mean_think_s": 0.2},
    }
    if name in small:
        return find_generator(name)(**small[name]).generate(5)
    rng = np.random.default_rng(11)
    sessions = []
    for number in range(40):
        first = turn(1000 * (number % 5), int(rng.integers(1, 60)), int(rng.integers(1, 90)))
        second = follow_up(first, 0, 9000 + 50 * number, 3, int(rng.integers(1, 30)), think_s=0.05)
        sessions.append((0.004 * number, [first, second]))
    return workload(*sessions)


def both(load: Workload, **more: Any) -> RunResult:
    plain = simulate(load, plain=True, **more)
    counted, coalesced, rows = (
        simulate(load, **how, **more)
        for how in ({"coalesce": False}, {"coalesce": True}, {"plain": True, "coalesce": True})
    )
    assert as_bytes(plain) == as_bytes(counted)
    assert as_bytes(plain) == as_bytes(coalesced)
    assert as_bytes(plain) == as_bytes(rows)
    return plain


@pytest.mark.parametrize("name", ["chat", "agents", "few-shot", "tree-of-thought", "rag", "by hand"])
@pytest.mark.parametrize("cache", [PrefixCache, NullPrefixCache])
def test_with_room_enough(name, cache):
    run = both(load_named(name), num_pages=16_000, page_size=16, cache=cache)
    assert {record.status for record in run.requests} == {"finished"}


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
@pytest.mark.parametrize("cache", [PrefixCache, NullPrefixCache])
@pytest.mark.parametrize("num_pages", [40, 60, 100])
def test_in_a_pool_that_evicts_and_throws_back(policy, cache, num_pages):
    run = both(load_named("by hand"), num_pages=num_pages, policy=policy, cache=cache)
    if cache is PrefixCache:
        assert run.counters["evictions"]
    if num_pages < 60:
        assert run.counters["preemptions"]


@pytest.mark.parametrize("eviction", sorted(EVICTION_POLICIES))
def test_under_every_eviction_policy(eviction):
    run = both(load_named("by hand"), num_pages=60, eviction=eviction, policy="lpm")
    assert run.counters["evictions"]


@pytest.mark.parametrize("partial_reuse", [True, False])
@pytest.mark.parametrize("page_size", [1, 2, 8, 16])
def test_at_every_page_size(page_size, partial_reuse):
    both(load_named("by hand"), num_pages=320 // page_size, page_size=page_size, partial_reuse=partial_reuse)


@pytest.mark.parametrize("settings", [{"token_budget": 3}, {"max_running": 2}, {"prefill_chunk_tokens": 5}])
@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_under_narrow_limits(settings, policy):
    both(load_named("by hand"), num_pages=60, policy=policy, **settings)


@pytest.mark.parametrize("pace", [OpenLoop(0.2), OpenLoop(20.0), ClosedLoop(1), ClosedLoop(7)])
def test_at_every_pace(pace):
    both(load_named("by hand"), pace=pace, num_pages=60)


def test_over_a_run_so_long_that_samples_are_thinned():
    slow = [
        replace(session, start_s=40.0 * number)
        for number, session in enumerate(load_named("by hand").sessions)
    ]
    both(Workload(name="slow", sessions=slow), num_pages=60)
    thinking = find_generator("chat")(num_sessions=6, arrivals=FAST, mean_think_s=60.0).generate(1)
    run = both(thinking, num_pages=4000, page_size=16)
    assert run.makespan_s > 60
