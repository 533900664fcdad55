"""Lookups of long and of deep prompts."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.scenarios.cached_prompt import CachedPrompt
from bench.scenarios.deep_path import DeepPath

PAGE_SIZE = 16


@pytest.mark.parametrize("num_tokens", [8192, 32768, 131072])
@pytest.mark.parametrize("call", ["peek", "compare"])
def test_peek_beside_comparing_the_bytes(benchmark: BenchmarkFixture, num_tokens: int, call: str) -> None:
    scenario = CachedPrompt(num_tokens, PAGE_SIZE, seed=0)
    scenario.verify()
    benchmark.group = f"peek, {num_tokens} tokens"
    benchmark(getattr(scenario, call))


@pytest.mark.parametrize("num_nodes", [64, 512])
@pytest.mark.parametrize("call", ["open_and_close", "open_and_abort", "peek", "compare_edges"])
def test_deep_path_beside_comparing_its_edges(benchmark: BenchmarkFixture, num_nodes: int, call: str) -> None:
    scenario = DeepPath(num_nodes, PAGE_SIZE, seed=0)
    benchmark.group = f"deep path, {num_nodes} nodes"
    benchmark(getattr(scenario, call))
    scenario.verify()
