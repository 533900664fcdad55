"""A short trace, with the cache and without."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.scenarios.life import serve, serve_uncached
from bench.scenarios.replay import Serve, replay
from bench.workloads import page_lru
from bench.workloads.generated_trace import generate

PAGE_SIZE = 16
NUM_PAGES = 12_500


@pytest.mark.parametrize("verbs", [serve, serve_uncached], ids=["cache", "no_cache"])
def test_replay_of_a_short_trace(benchmark: BenchmarkFixture, verbs: Serve) -> None:
    trace = generate(200, seed=0)
    oracle = page_lru.replay(trace, num_pages=NUM_PAGES, page_size=PAGE_SIZE)
    benchmark.group = "replay of 200 requests, making tokens included"
    cache, _ = benchmark(replay, trace, verbs, num_pages=NUM_PAGES, page_size=PAGE_SIZE)
    assert cache.stats.matched_tokens == (oracle.matched_tokens if verbs is serve else 0)
