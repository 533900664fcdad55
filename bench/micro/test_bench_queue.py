"""Dispatches, chunks that everybody waits for, and steps that admit nobody."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.harness.timing import Stopwatch
from bench.scenarios.cold_prefix import ColdPrefix
from bench.scenarios.full_pool import FullPool
from bench.scenarios.saturated_queue import SaturatedQueue
from bench.workloads.generated_trace import generate
from bench.workloads.prompt_stream import PromptStream
from scheduler.policies import QUEUE_POLICIES

PAGE_SIZE = 16
STEPS = 100


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


@pytest.mark.parametrize("num_waiting", [0, 512])
@pytest.mark.parametrize("disturbed", [False, True], ids=["unchanged", "retried"])
def test_step_that_admits_nobody(benchmark: BenchmarkFixture, num_waiting: int, disturbed: bool) -> None:
    stream = PromptStream(generate(1_000, 0), 4_096, 12_288)
    scenario = FullPool(
        "lpm", 16, num_waiting, iter(stream), num_steps=STEPS + 1, page_size=PAGE_SIZE, seed=0
    )
    watch = Stopwatch()
    before = "one went and one came" if disturbed else "nothing changed"
    benchmark.group = f"schedule and commit, 16 run, nobody enters, {before}"
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        scenario.step, args=(watch,), kwargs={"disturbed": disturbed}, rounds=STEPS
    )
    scenario.verify()
