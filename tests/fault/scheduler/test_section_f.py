"""Field faults F03 to F05, F08 to F11 and F13."""

import pytest

from radixcache import OutOfPages, PrefixCache, RadixCacheError
from scheduler import PoolOutgrown, RequestState, RequestTooLong, Stalled
from tests.fault.scheduler.toy_engine import ToyEngine, generate
from tests.unit.scheduler.loop import ENDED, Loop, ids

# F03: a big request at the head


@pytest.mark.parametrize("policy", ["fcfs"])
@pytest.mark.parametrize("num_small", [1, 5, 50])
def test_f03_the_head_waits_for_those_that_run_and_for_nobody_behind_it(policy, num_small):
    loop = Loop(20, 4, policy=policy)
    running = [loop.submit(f"run{n}", ids(100 * n, 8), 3 + n) for n in range(4)]
    loop.step()
    head = loop.submit("head", ids(5000, 72), 2)
    smalls = [loop.submit(f"small{n}", ids(9000 + 10 * n, 2), 1) for n in range(num_small)]
    while head.first_scheduled_at is None:
        loop.step()
    assert all(request.state is RequestState.FINISHED for request in running)
    assert all(request.first_scheduled_at in (None, head.first_scheduled_at) for request in smalls)
    longest_left = 6
    assert len(loop.plans) <= 1 + longest_left
    loop.run()


def test_f03_a_stream_of_small_ones_never_starves_the_head():
    loop = Loop(20, 4)
    loop.submit("first", ids(0, 8), 6)
    loop.step()
    head = loop.submit("head", ids(5000, 72), 2)
    for number in range(40):
        loop.submit(f"small{number}", ids(9000 + 10 * number, 2), 1)
        loop.step()
    assert head.state is RequestState.FINISHED


# F04: larger than the usable pool


@pytest.mark.parametrize("cached", [0, 16])
def test_f04_exactly_the_pool_is_served_and_one_more_page_is_refused_at_submit(cached):
    loop = Loop(8, 4)
    if cached:
        loop.warm(ids(0, cached))
    with pytest.raises(RequestTooLong, match="needs KV for 33 tokens, the pool holds at most 32"):
        loop.submit("more", ids(0, 30), 4)
    behind = loop.submit("exact", ids(0, 30), 3)
    loop.run()
    assert behind.state is RequestState.FINISHED
    assert behind.matched_len == cached


def test_f04_exactly_the_pool_is_served_with_a_copy_in_the_way():
    loop = Loop(4, 4, partial_reuse=True)
    loop.warm(ids(0, 16))
    request = loop.submit("a", [*ids(0, 2), *ids(500, 14)], 1)
    loop.run()
    assert request.state is RequestState.FINISHED


@pytest.mark.parametrize("chunk", [1, 3, 4, None])
def test_f04_exactly_the_pool_is_served_in_any_chunks(chunk):
    loop = Loop(4, 4, prefill_chunk_tokens=chunk, partial_reuse=True)
    loop.warm([*ids(0, 6), 99, 98])
    request = loop.submit("a", ids(0, 14), 3)
    loop.run()
    assert request.state is RequestState.FINISHED


# F05: 96 pages, 32 requests, a shared prefix of 59 pages


@pytest.mark.parametrize("cache_is", ["warm", "cold"])
@pytest.mark.parametrize("outputs_are", ["unknown", "thought short"])
@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_f05_everybody_finishes_though_all_want_one_more_page(cache_is, outputs_are, policy):
    page_size = 4
    prefix = ids(0, 59 * page_size)
    loop = Loop(96, page_size, policy=policy)
    if outputs_are == "thought short":
        loop.let_expect(1)
    if cache_is == "warm":
        loop.warm(prefix)
    requests = [loop.submit(f"r{n}", [*prefix, *ids(5000 + 10 * n, 3)], 5) for n in range(32)]
    num_plans = len(loop.run(max_steps=500))
    assert {request.state for request in requests} == {RequestState.FINISHED}
    assert num_plans < 60
    if outputs_are == "unknown":
        assert not any(plan.preempted for plan in loop.plans)
    loop.assert_nothing_is_held()


def test_f05_without_room_for_growth_not_all_are_admitted_at_once():
    loop = Loop(96, 4)
    prefix = ids(0, 59 * 4)
    loop.warm(prefix)
    for n in range(32):
        loop.submit(f"r{n}", [*prefix, *ids(5000 + 10 * n, 3)], 5)
    loop.step()
    assert loop.scheduler.num_running == (96 - 59) // 2


# F08: room for a chunk is not room for a prompt


def test_f08_a_prompt_that_does_not_fit_beside_the_others_is_not_begun():
    loop = Loop(20, 4, prefill_chunk_tokens=8)
    holder = loop.submit("holder", ids(0, 30), 3)  # 8 pages
    for _ in range(4):
        loop.step()
    long = loop.submit("long", ids(1000, 78), 1)  # 20 pages, 12 are left: 60 %
    loop.run()
    assert long.first_scheduled_at > holder.finished_at
    assert (long.num_preemptions, long.recomputed_tokens) == (0, 0)


def test_f08_a_long_prompt_that_was_thrown_out_goes_on_where_it_was():
    loop = Loop(20, 4, prefill_chunk_tokens=8)
    loop.let_expect(1)
    loop.submit("holder", ids(0, 8), 40)  # thought to need 2 pages, needs 12
    long = loop.submit("long", ids(1000, 64), 2)  # 17 pages
    loop.run()
    assert long.state is RequestState.FINISHED
    assert long.num_preemptions <= 1
    assert long.recomputed_tokens <= 64


# F09: two requests, and a pool that is slightly too small for both


@pytest.mark.parametrize("num_pages", range(6, 13))
@pytest.mark.parametrize("write", [True, False])
def test_f09_both_finish_and_the_first_is_never_thrown_back(num_pages, write):
    loop = Loop(num_pages, 4)  # each needs 6 pages
    loop.let_expect(1)
    engine = ToyEngine(num_pages * 4, 4)
    first = loop.submit("a", ids(0, 8), 17, write=write)
    second = loop.submit("b", ids(500, 8), 17, write=write)
    num_plans = 0
    while not loop.scheduler.is_idle:
        plan = loop.schedule()
        assert len(plan.preempted) <= 1
        num_plans += 1
        loop.commit(plan, engine.execute(plan))
    assert (first.output, second.output) == (generate(ids(0, 8), 17), generate(ids(500, 8), 17))
    assert first.num_preemptions == 0
    assert second.num_preemptions <= 1
    assert second.recomputed_tokens <= 24
    assert num_plans <= 2 * 18


@pytest.mark.parametrize("num_requests", [3, 6, 10])
def test_f09_no_more_are_thrown_back_than_others_end(num_requests):
    loop = Loop(7, 4)
    loop.let_expect(1)
    requests = [loop.submit(f"r{n}", ids(100 * n, 8), 17) for n in range(num_requests)]
    for plan in loop.run():
        assert plan.rows
        assert len(plan.preempted) < num_requests
    assert {request.state for request in requests} == {RequestState.FINISHED}
    for request in requests:
        assert request.num_preemptions <= num_requests - 1


# F10: what was found at submit is gone at admission


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
def test_f10_a_prefix_evicted_in_between_costs_tokens_but_breaks_no_budget(policy):
    loop = Loop(200, 4, policy=policy, token_budget=32)
    loop.warm(ids(0, 400))
    requests = [loop.submit(f"r{n}", [*ids(0, 400), n], 2) for n in range(3)]
    assert loop.matched(ids(0, 400)) == 400
    loop.cache.evict(60)
    for plan in loop.run():
        assert plan.num_tokens <= 32
    assert requests[0].matched_len == 160
    assert {request.state for request in requests} == {RequestState.FINISHED}


# F11: what is cached needs no free page


@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
@pytest.mark.parametrize("somebody_runs", [True, False])
def test_f11_16_pages_of_which_12_are_cached_need_4_free_ones(policy, somebody_runs):
    loop = Loop(16 + somebody_runs, 4, policy=policy)
    loop.warm(ids(0, 12 * 4))
    if somebody_runs:
        loop.submit("other", [9000], 4)
        loop.step()
    assert loop.cache.pages.free == 4
    request = loop.submit("a", ids(0, 16 * 4), 1)
    loop.step()
    assert request.state is RequestState.FINISHED
    assert request.matched_len == 48


# F13: one request outgrows the whole pool


def test_f13_a_lone_request_ends_with_a_clear_error_and_the_scheduler_lives():
    loop = Loop(4, 4)
    request = loop.submit("endless", ids(0, 3), None)
    loop.run()
    assert request.state is RequestState.FAILED
    assert isinstance(request.error, PoolOutgrown)
    assert isinstance(request.error, RadixCacheError)
    assert isinstance(request.error, MemoryError)
    assert "'endless' has 17 tokens and no page is left" in str(request.error)
    assert request.num_known == 17
    assert request in loop.plans[-1].failed
    loop.assert_nothing_is_held()
    after = loop.submit("after", ids(0, 3), 2)
    loop.run()
    assert after.state is RequestState.FINISHED


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_f13_the_others_go_on(place):
    loop = Loop(8, 4)
    loop.let_expect(1)
    requests = [loop.submit(f"r{n}", ids(100 * n, 5), None if n == place else 9) for n in range(4)]
    loop.run()
    states = [request.state for request in requests]
    assert states.pop(place) is RequestState.FAILED
    assert set(states) == {RequestState.FINISHED}
    assert [request.error is None for request in requests] == [n != place for n in range(4)]
    loop.assert_nothing_is_held()


def test_f13_two_endless_ones_both_end():
    loop = Loop(8, 4)
    loop.let_expect(1)
    requests = [loop.submit(name, [ord(name)], None) for name in "ab"]
    loop.run()
    assert {request.state for request in requests} == {RequestState.FAILED}
    assert [request.num_known for request in requests] == [33, 33]


def test_f13_the_error_is_no_error_of_the_plan():
    loop = Loop(4, 4)
    request = loop.submit("endless", ids(0, 3), None)
    waiting = loop.submit("next", ids(50, 12), 1)
    while request.state not in ENDED:
        plan = loop.step()
    assert plan.failed == (request,)
    loop.run()
    assert waiting.state is RequestState.FINISHED


# A stall is loud


def stalled(max_empty_plans: int) -> tuple[Loop, object]:
    """A pool that somebody outside the scheduler holds."""
    loop = Loop(4, 4, max_empty_plans=max_empty_plans)
    stranger = loop.cache.open(ids(900, 12))
    stranger.reserve(12)
    loop.submit("a", ids(0, 8), 1)
    return loop, stranger


@pytest.mark.parametrize("max_empty_plans", [1, 2, 8])
def test_a_stall_is_reported_after_so_many_empty_plans(max_empty_plans):
    loop, _ = stalled(max_empty_plans)
    for _ in range(max_empty_plans - 1):
        assert not loop.schedule()
    with pytest.raises(
        Stalled, match=f"1 requests wait, 0 run, and {max_empty_plans} plans in a row"
    ) as caught:
        loop.schedule()
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, RuntimeError)


def test_a_stall_ends_when_its_reason_does():
    loop, stranger = stalled(2)
    loop.schedule()
    with pytest.raises(Stalled):
        loop.schedule()
    stranger.close()
    loop.run()


def test_being_idle_is_no_stall():
    loop = Loop(max_empty_plans=1)
    for _ in range(20):
        assert not loop.schedule()


def test_a_plan_that_only_fails_somebody_is_no_stall():
    loop = Loop(4, 4, max_empty_plans=1)
    loop.submit("endless", ids(0, 3), None)
    loop.submit("next", ids(50, 3), 1)
    loop.run()


def test_empty_plans_count_only_in_a_row():
    loop, stranger = stalled(3)
    loop.schedule()
    loop.schedule()
    stranger.close()
    loop.step()
    blocker = loop.cache.open(ids(900, 12))
    blocker.reserve(12)
    loop.submit("b", ids(50, 8), 1)
    assert not loop.schedule()
    assert not loop.schedule()
    blocker.abort()


# Refusals in the loop leave no trace


def test_a09_a_thousand_failed_tries_leave_every_count_as_it_was():
    loop = Loop(8, 4)
    loop.warm(ids(0, 16))
    stranger = loop.cache.open(ids(900, 8))
    stranger.reserve(8)
    loop.submit("holder", [800], 3)
    loop.schedule()
    late = loop.submit("late", ids(0, 31), 1)
    before = (loop.cache.pages, loop.cache.stats)
    for _ in range(1000):
        sequence = loop.cache.open(late.prompt)
        with pytest.raises(OutOfPages):
            sequence.reserve(100)
        sequence.abort()
    after = (loop.cache.pages, loop.cache.stats)
    assert before[0] == after[0]
    assert (before[1].lookups, before[1].num_nodes) == (after[1].lookups, after[1].num_nodes)
    assert isinstance(loop.cache, PrefixCache)
    stranger.abort()
