"""Dispatches, and chunks that everybody waits for."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.scenarios.cold_prefix import ColdPrefix
from bench.scenarios.saturated_queue import SaturatedQueue
from bench.workloads.generated_trace import generate
from bench.workloads.prompt_stream import PromptStream
from scheduler.policies import QUEUE_POLICIES

PAGE_SIZE = 16


@pytest.mark.parametrize("num_waiting", [128, 2_048])
@pytest.mark.parametrize("policy", QUEUE_POLICIES)
def test_choose_the_next(benchmark: BenchmarkFixture, policy: str, num_waiting: int) -> None:
    stream = PromptStream(generate(1_000, 0), 4_096, 12_288)
    queue = SaturatedQueue(policy, num_waiting, iter(stream), num_pages=10_000, page_size=PAGE_SIZE)
    queue.warm_up(20)
    queue.verify()
    benchmark.group = f"next, {num_waiting} wait"
    benchmark(queue.head)
    queue.drain()


@pytest.mark.parametrize("policy", QUEUE_POLICIES)
def test_publish_a_prefix_in_chunks(benchmark: BenchmarkFixture, policy: str) -> None:
    scenario = ColdPrefix(policy, 1_000, prefix_pages=128, chunk_pages=32, page_size=PAGE_SIZE, seed=0)
    scenario.verify()
    benchmark.group = "a prefix in four chunks, 1,000 wait"
    benchmark(scenario.lead)
