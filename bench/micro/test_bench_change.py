"""Evictions, insertions and locks."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.scenarios.hot_prefix import HotPrefix
from bench.scenarios.leaf_churn import LeafChurn
from bench.scenarios.life import serve

PAGE_SIZE = 16


@pytest.mark.parametrize("touched", [False, True], ids=["steady", "just_touched"])
@pytest.mark.parametrize("num_leaves", [1_000, 10_000])
def test_evict_one_page(benchmark: BenchmarkFixture, num_leaves: int, touched: bool) -> None:
    scenario = LeafChurn(num_leaves, PAGE_SIZE, seed=0)
    if touched:
        scenario.touch_all(shuffled=True)
    benchmark.group = f"evict, {num_leaves} leaves"
    started = False

    def refill() -> None:
        nonlocal started
        if started:
            serve(scenario.cache, scenario.next_leaf())
        started = True

    benchmark.pedantic(scenario.evict_one, setup=refill, rounds=500)  # type: ignore[no-untyped-call]
    serve(scenario.cache, scenario.next_leaf())
    scenario.verify()


@pytest.mark.parametrize("depth", [1, 64, 1024])
@pytest.mark.parametrize("call", ["lock_and_unlock", "open_and_abort", "peek"])
def test_lock_of_a_hot_prefix(benchmark: BenchmarkFixture, depth: int, call: str) -> None:
    scenario = HotPrefix(depth, 100, PAGE_SIZE, seed=0)
    scenario.verify()
    benchmark.group = f"hot prefix, {call}"
    benchmark(getattr(scenario, call))
    scenario.release()
