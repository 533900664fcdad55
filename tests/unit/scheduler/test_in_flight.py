"""A page that several requests need is computed by one of them, and the others wait for it."""

from collections.abc import Callable

import pytest

from scheduler import QUEUE_POLICIES, Request, RequestState
from tests.unit.scheduler.loop import Loop, ids

PREFIX = 1_000
NUM = 10
CHUNK = 100
POLICIES = sorted(QUEUE_POLICIES)

Prompts = list[list[int]]


def equal(page_size: int) -> Prompts:
    return [ids(0, PREFIX)] * NUM


def parallel_samples(page_size: int) -> Prompts:
    return [[*ids(0, PREFIX), 7 + number] for number in range(NUM)]


def sub_agents(page_size: int) -> Prompts:
    return [[*ids(0, PREFIX), *ids(10_000 + 100 * number, 37 + number)] for number in range(NUM)]


def most_tokens(prompts: Prompts, page_size: int) -> int:
    """The prefix once, what lies behind its last full page for each, and one page."""
    full = PREFIX // page_size * page_size
    if len(prompts[0]) == PREFIX and full == PREFIX:
        full -= page_size
    return PREFIX + sum(len(prompt) - full for prompt in prompts) + page_size


def loop_of(policy: str, page_size: int, num_pages: int = 4_000, **settings: object) -> Loop:
    return Loop(num_pages, page_size, policy=policy, token_budget=400, prefill_chunk_tokens=CHUNK, **settings)


def computed(loop: Loop) -> int:
    """Known tokens computed, by the plans."""
    return sum(plan.num_tokens for plan in loop.plans)


def prefilled(requests: list[Request]) -> int:
    return sum(request.prefill_tokens + request.recomputed_tokens for request in requests)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("page_size", [1, 8, 16])
@pytest.mark.parametrize("prompts_of", [equal, parallel_samples, sub_agents])
def test_ten_at_once_compute_the_prefix_once(prompts_of, page_size, policy):
    loop = loop_of(policy, page_size)
    prompts = prompts_of(page_size)
    requests = [loop.submit(f"r{n}", prompt, 1) for n, prompt in enumerate(prompts)]
    loop.run()
    assert computed(loop) == prefilled(requests) <= most_tokens(prompts, page_size)
    assert len(loop.plans) <= PREFIX // CHUNK + NUM + 4


@pytest.mark.parametrize("policy", POLICIES)
def test_those_who_come_while_the_prefix_is_computed_wait_for_it_too(policy):
    loop = loop_of(policy, 8)
    prompts = sub_agents(8)
    requests = []
    for number, prompt in enumerate(prompts):
        requests.append(loop.submit(f"r{number}", prompt, 1))
        loop.step()
    loop.run()
    assert prefilled(requests) <= most_tokens(prompts, 8)


@pytest.mark.parametrize("policy", POLICIES)
def test_in_a_tree_of_prefixes_every_page_is_computed_once(policy):
    loop = loop_of(policy, 8)
    prompts = [
        [*ids(0, 240), *ids(1_000 * (n // 4 + 1), 160), *ids(50_000 + 1_000 * (n // 2), 80), *ids(n * 9, 5)]
        for n in range(16)
    ]
    requests = [loop.submit(f"r{n}", prompt, 1) for n, prompt in enumerate(prompts)]
    loop.run()
    assert prefilled(requests) == 240 + 4 * 160 + 8 * 80 + 16 * 5


def test_the_others_go_on_while_some_wait():
    loop = loop_of("lpm", 8)
    loop.submit("leader", ids(0, PREFIX), 1)
    follower = loop.submit("follower", ids(0, PREFIX), 1)
    others = [loop.submit(f"other{n}", ids(10_000 + 1_000 * n, 40), 1) for n in range(4)]
    loop.run()
    assert all(other.first_scheduled_at < follower.first_scheduled_at for other in others)


def test_without_sharing_everybody_computes_everything():
    loop = loop_of("fcfs", 8, share_in_flight=False)
    loop.plans.clear()
    requests = [loop.submit(f"r{n}", ids(0, 96), 1) for n in range(4)]
    loop.run()
    assert prefilled(requests) == 4 * 96


def test_who_reads_nothing_waits_for_nobody_and_who_writes_nothing_leads_nobody():
    loop = loop_of("lpm", 8)
    silent = loop.submit("silent", ids(0, PREFIX), 1, write=False)
    blind = loop.submit("blind", ids(0, PREFIX), 1, read=False, write=False)
    follower = loop.submit("follower", ids(0, PREFIX), 1)
    loop.step()
    assert [each.state for each in (silent, blind, follower)] == [RequestState.RUNNING] * 3
    loop.run()


# Leaders that do not get to the end


def abort(loop: Loop, leader: Request) -> None:
    loop.abort(leader.request_id)


def preempt(loop: Loop, leader: Request) -> None:
    loop.scheduler.preempt(leader.request_id)


def lose(loop: Loop, leader: Request) -> None:
    """It is aborted between a plan and its commit."""
    plan = loop.schedule()
    loop.abort(leader.request_id)
    loop.commit(plan, {name: out for name, out in loop.outputs(plan).items() if name != leader.request_id})


def fail_a_step(loop: Loop, leader: Request) -> None:
    loop.discard(loop.schedule())


def retire(loop: Loop, leader: Request) -> None:
    loop.cache.retire(None)


@pytest.mark.parametrize("when", range(13))
@pytest.mark.parametrize("policy", ["fcfs", "lpm", "fair"])
@pytest.mark.parametrize("happens", [abort, preempt, lose, fail_a_step])
def test_another_takes_over_whatever_happens_to_the_leader_at_any_step(
    happens: Callable[[Loop, Request], None], policy: str, when: int
):
    page_size = 8
    loop = loop_of(policy, page_size)
    prompts = sub_agents(page_size)
    requests = [loop.submit(f"r{n}", prompt, 1) for n, prompt in enumerate(prompts)]
    for _ in range(when):
        loop.step()
    leader = next((each for each in requests if each.state is RequestState.RUNNING), None)
    lost = 0
    if leader is not None:
        unpublished = leader.sequence.computed_len - leader.sequence.published_len
        happens(loop, leader)
        lost = unpublished + (CHUNK if happens in {lose, fail_a_step} else 0)
        loop.step()
        assert loop.scheduler.num_running >= min(1, loop.scheduler.num_waiting)
    loop.run()
    assert all(request.state in {RequestState.FINISHED, RequestState.ABORTED} for request in requests)
    assert prefilled(requests) <= most_tokens(prompts, page_size) + lost
    assert len(loop.plans) <= PREFIX // CHUNK + NUM + 8


def test_leader_after_leader_ends_and_the_work_is_done_once_all_the_same():
    loop = loop_of("lpm", 8)
    prompts = sub_agents(8)
    requests = [loop.submit(f"r{n}", prompt, 1) for n, prompt in enumerate(prompts)]
    for leader in requests[:6]:
        loop.step()
        assert leader.state is RequestState.RUNNING
        loop.abort(leader.request_id)
    loop.run()
    assert prefilled(requests) <= most_tokens(prompts, 8) + 6 * 8


@pytest.mark.parametrize("when", range(1, 9))
def test_a_retired_namespace_has_no_leaders(when):
    loop = loop_of("lpm", 8)
    requests = [loop.submit(f"r{n}", prompt, 1) for n, prompt in enumerate(sub_agents(8))]
    for _ in range(when):
        loop.step()
    old = [request for request in requests if request.state is RequestState.RUNNING]
    loop.cache.retire(None)
    loop.step()
    assert loop.scheduler.num_running == len(old) + 1
    loop.run()
    fresh = [request for request in requests if request not in old]
    assert prefilled(fresh) <= PREFIX + sum(len(request.prompt) - PREFIX for request in fresh) + 8


def test_whoever_was_passed_too_often_waits_no_longer():
    loop = loop_of("k-lpm", 8, max_overtakes=3)
    loop.submit("leader", ids(0, PREFIX), 1)
    loop.step()
    follower = loop.submit("follower", ids(0, PREFIX), 1)
    others = [loop.submit(f"other{n}", ids(10_000 + 1_000 * n, 9), 1) for n in range(8)]
    loop.step()
    assert follower.state is RequestState.RUNNING
    assert sum(other.first_scheduled_at is not None for other in others) >= 3
    loop.run()
