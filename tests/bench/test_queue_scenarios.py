import numpy as np
import pytest

from bench.errors import BenchError, WrongResult
from bench.harness.timing import Stopwatch
from bench.scenarios.cold_prefix import CHUNK, EVICTION, PARTING, ColdPrefix
from bench.scenarios.full_pool import FullPool
from bench.scenarios.queue_entries import count_entries
from bench.scenarios.saturated_queue import SaturatedQueue
from bench.workloads.prompt_stream import PromptStream
from bench.workloads.trace import BLOCK_SIZE, make_trace
from scheduler.policies import QUEUE_POLICIES, UNBOUNDED

PAGE_SIZE = 16
TRACE = make_trace(
    "t",
    [
        ([0, number // 3, 100 + number % 4, 200 + number], 3 * BLOCK_SIZE + 7 * number + 1, 1 + number % 40)
        for number in range(24)
    ],
)
STREAM = PromptStream(TRACE, 1, 4 * BLOCK_SIZE)


def saturated(policy: str, num_waiting: int = 12, max_overtakes: int | None = None) -> SaturatedQueue:
    return SaturatedQueue(
        policy, num_waiting, iter(STREAM), num_pages=400, page_size=PAGE_SIZE, max_overtakes=max_overtakes
    )


@pytest.mark.parametrize("policy", QUEUE_POLICIES)
def test_saturated_queue_names_whom_the_oracle_names_at_every_dispatch(policy):
    queue = saturated(policy)
    queue.warm_up(5)
    for _ in range(40):
        queue.verify()
        queue.dispatch()
    assert len(queue.dispatches.samples()["cpu"]) == len(queue.arrivals.samples()["wall"]) == 40
    queue.drain()


def test_oracle_notices_a_request_out_of_turn():
    queue = saturated("fcfs")
    second = queue.oracle.waiting()[1]
    with pytest.raises(WrongResult, match="fcfs: next: found 1, wanted 0"):
        queue.oracle.check(second, 0.0)


@pytest.mark.parametrize("policy", sorted(set(QUEUE_POLICIES) - UNBOUNDED))
def test_oracle_knows_who_is_due(policy):
    queue = saturated(policy, max_overtakes=2)
    queue.warm_up(5)
    for _ in range(60):
        queue.verify()
        queue.dispatch()


@pytest.mark.parametrize("policy", QUEUE_POLICIES)
def test_bookkeeping_grows_with_those_who_wait_and_goes_with_them(policy):
    few, many = saturated(policy, 8), saturated(policy, 64)
    assert sum(few.entries().values()) < sum(many.entries().values()) < 30 * 64
    many.drain()
    assert sum(many.entries().values()) < 2 * 64


def test_entries_are_counted_in_containers_of_any_depth():
    queue = saturated("lpm", 10)
    counts = count_entries(queue.line)
    assert counts["WaitingForest._node_of"] == 10
    assert counts["WaitNode.requests"] == 10
    assert counts["HeapedPoints._entries"] == counts["HeapedPoints._heap"] >= 1


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("policy", QUEUE_POLICIES)
def test_leader_of_a_cold_prefix_may_stop_anywhere(policy, spread):
    scenario = ColdPrefix(
        policy, 30, prefix_pages=10, chunk_pages=4, page_size=PAGE_SIZE, seed=0, spread=spread
    )
    scenario.verify()
    scenario.lead()
    numbers = {kind: len(scenario.meter.samples(kind)["cpu"]) for kind in (CHUNK, PARTING, EVICTION)}
    assert numbers == {CHUNK: 2, PARTING: 1, EVICTION: 1}


@pytest.mark.parametrize("disturbed", [False, True])
@pytest.mark.parametrize("num_running", [1, 5])
def test_nobody_enters_a_full_pool(num_running, disturbed):
    scenario = FullPool("lpm", num_running, 7, iter(STREAM), num_steps=20, page_size=PAGE_SIZE, seed=0)
    watch = Stopwatch()
    for _ in range(20):
        scenario.step(watch, disturbed=disturbed)
    scenario.verify()
    assert len(watch.samples()["cpu"]) == 20


def test_request_that_is_admitted_after_all_is_noticed():
    scenario = FullPool("lpm", 2, 3, iter(STREAM), num_steps=3, page_size=PAGE_SIZE, seed=0)

    def go_on_until_somebody_ends() -> None:
        while True:
            scenario.step(Stopwatch(), disturbed=False)

    with pytest.raises(WrongResult):
        go_on_until_somebody_ends()


def test_stream_repeats_lengths_and_not_content():
    stream = PromptStream(TRACE, 3 * BLOCK_SIZE, 3 * BLOCK_SIZE + 50)
    requests = iter(stream)
    first, second = ([next(requests) for _ in range(len(stream))] for _ in range(2))
    assert 0 < len(stream) < len(TRACE)
    assert [len(one.prompt) for one in first] == [len(other.prompt) for other in second]
    assert not np.intersect1d(
        *(np.concatenate([each.prompt for each in part]) for part in (first, second))
    ).size


def test_stream_without_such_a_prompt_is_refused():
    with pytest.raises(BenchError, match="no prompt of 5 to 6 tokens"):
        PromptStream(TRACE, 5, 6)
