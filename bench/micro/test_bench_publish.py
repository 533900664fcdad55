"""Publishing pages, and looking up among many leaves."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.harness.timing import Stopwatch
from bench.scenarios.crowded_tree import CrowdedTree
from bench.scenarios.published_pages import PublishedPages

PAGE_SIZE = 16
ROUNDS = 100


@pytest.mark.parametrize(("num_pages", "num_leaves"), [(1, 1), (16, 1), (256, 1), (16, 10_000)])
def test_publish_pages(benchmark: BenchmarkFixture, num_pages: int, num_leaves: int) -> None:
    scenario = PublishedPages(num_pages, num_leaves, ROUNDS, PAGE_SIZE, seed=0)
    watches = Stopwatch(), Stopwatch(), Stopwatch()
    benchmark.group = "open, reserve, advance, publish, abort; making tokens included"
    benchmark.pedantic(scenario.publish, args=watches, rounds=ROUNDS)  # type: ignore[no-untyped-call]
    scenario.verify()


@pytest.mark.parametrize("num_leaves", [1_000, 10_000])
@pytest.mark.parametrize("call", ["peek", "peek_elsewhere", "open_and_close"])
def test_peek_among_many_leaves(benchmark: BenchmarkFixture, num_leaves: int, call: str) -> None:
    scenario = CrowdedTree(num_leaves, 8_192, PAGE_SIZE, seed=0)
    benchmark.group = f"8,192 tokens among many, {call}"
    benchmark(getattr(scenario, call))
    scenario.verify()
