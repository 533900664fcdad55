import pytest

from radixcache import NullPrefixCache, PrefixCache
from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids, prefill_of, shape

BOTH = pytest.mark.parametrize("cache", [PrefixCache, NullPrefixCache])


def test_an_idle_scheduler_makes_an_empty_plan_that_needs_no_commit():
    loop = Loop()
    plan = loop.schedule()
    assert not plan
    assert (plan.rows, plan.num_tokens) == ((), 0)
    assert loop.schedule().number == plan.number + 1


def test_a_prompt_then_one_token_a_step():
    loop = Loop()
    request = loop.submit("a", ids(0, 10), 3)
    plans = loop.run()
    assert [shape(plan) for plan in plans] == [[("a", 0, 10, 1)], [("a", 10, 1, 1)], [("a", 11, 1, 1)]]
    assert len(request.output) == 3


@BOTH
def test_no_step_exceeds_the_token_budget(cache):
    loop = Loop(num_pages=200, cache=cache, token_budget=16)
    for number in range(12):
        loop.submit(f"r{number}", ids(100 * number, 5 + 3 * number), 4)
    plans = loop.run()
    assert max(plan.num_tokens for plan in plans) == 16


def test_the_budget_is_filled_while_there_is_work():
    loop = Loop(num_pages=200, token_budget=16)
    for number in range(4):
        loop.submit(f"r{number}", ids(100 * number, 30), 1)
    plans = loop.run()
    assert [plan.num_tokens for plan in plans] == [16] * 7 + [8]


def test_decodes_come_before_prefills_and_both_oldest_first():
    loop = Loop(num_pages=200, token_budget=16, prefill_chunk_tokens=6)
    loop.submit("long", ids(0, 60), 1)
    loop.submit("short", ids(100, 4), 9)
    loop.submit("longer", ids(200, 90), 1)
    loop.submit("brief", ids(300, 2), 9)
    loop.step()
    loop.step()
    assert shape(loop.schedule()) == [
        ("short", 5, 1, 1),
        ("brief", 2, 1, 1),
        ("long", 12, 6, 0),
        ("longer", 12, 6, 0),
    ]


def test_a_prefill_waits_for_its_turn_when_decodes_use_the_budget_up():
    loop = Loop(num_pages=200, token_budget=2, prefill_chunk_tokens=1)
    prefill = loop.submit("p", ids(0, 8), 1)
    loop.submit("d", ids(100, 1), 4)
    loop.run()
    assert prefill.state is RequestState.FINISHED
    assert all(plan.num_tokens <= 2 for plan in loop.plans)


def test_a_chunk_generates_only_when_it_is_the_last():
    loop = Loop(token_budget=4)
    loop.submit("a", ids(0, 10), 1)
    assert [shape(plan)[0] for plan in loop.run()] == [("a", 0, 4, 0), ("a", 4, 4, 0), ("a", 8, 2, 1)]


@pytest.mark.parametrize("page_size", [1, 4, 20, 100, 300])
def test_an_uncached_rest_that_fits_one_chunk_is_one_chunk(page_size):
    loop = Loop(1200 // page_size, page_size, prefill_chunk_tokens=512)
    loop.warm(ids(0, 600))
    request = loop.submit("a", ids(0, 900), 1)
    assert prefill_of(loop.run(), request) == [(600, 300)]
    assert request.matched_len == 600


@pytest.mark.parametrize("cached", [0, 4, 512, 516, 896])
def test_no_step_has_zero_length_whatever_is_cached(cached):
    loop = Loop(300, 4, prefill_chunk_tokens=512)
    if cached:
        loop.warm(ids(0, cached))
    request = loop.submit("a", ids(0, 900), 1)
    rows = prefill_of(loop.run(), request)
    assert all(extend_len > 0 for _, extend_len in rows)
    assert sum(extend_len for _, extend_len in rows) == 900 - cached
    assert len(rows) == -(-(900 - cached) // 512)


def test_reuse_reaches_past_the_first_chunk_and_is_reported_once():
    loop = Loop(page_size=4, prefill_chunk_tokens=8)
    loop.warm(ids(0, 80))
    request = loop.submit("a", [*ids(0, 80), *ids(500, 20)], 1)
    plans = loop.run()
    assert request.matched_len == 80
    assert prefill_of(plans, request) == [(80, 8), (88, 8), (96, 4)]
    assert loop.cache.stats.matched_tokens == 80


def test_matched_and_computed_prompt_tokens_add_up():
    loop = Loop(200, 4, prefill_chunk_tokens=5)
    requests = [loop.submit(f"r{n}", ids(0, 20) + ids(100 + 50 * n, 7 * n + 1), 2) for n in range(6)]
    loop.run()
    for request in requests:
        assert request.matched_len + request.prefill_tokens == len(request.prompt)


def test_at_most_so_many_run_at_once():
    loop = Loop(num_pages=200, max_running=3)
    for number in range(8):
        loop.submit(f"r{number}", ids(100 * number, 5), 1 + number)
    most = 0
    while not loop.scheduler.is_idle:
        loop.step()
        most = max(most, loop.scheduler.num_running)
    assert most == 3


def test_a_freed_place_is_taken_in_the_next_step():
    loop = Loop(max_running=1)
    loop.submit("a", ids(0, 3), 1)
    loop.submit("b", ids(9, 3), 1)
    assert [shape(plan) for plan in loop.run()] == [[("a", 0, 3, 1)], [("b", 0, 3, 1)]]


def test_a_prompt_of_one_token_is_served():
    loop = Loop()
    request = loop.submit("a", [7], 1)
    assert [shape(plan) for plan in loop.run()] == [[("a", 0, 1, 1)]]
    assert request.prefill_tokens == 1


def test_copies_bring_tokens_that_need_no_prefill():
    loop = Loop(page_size=4, partial_reuse=True)
    loop.warm(ids(0, 8))
    request = loop.submit("a", [*ids(0, 6), 90, 91, 92], 1)
    plan = loop.schedule()
    assert shape(plan) == [("a", 6, 3, 1)]
    assert [copy.num_tokens for copy in plan.copies] == [2]
    assert plan.copies[0].target == request.sequence.page_table[1]
    loop.commit(plan)
    assert (request.matched_len, request.copied_len, request.prefill_tokens) == (4, 2, 3)


def test_a_row_whose_tokens_were_all_copied_has_nothing_to_compute():
    loop = Loop(page_size=8, partial_reuse=True, prefill_chunk_tokens=2)
    loop.warm(ids(0, 8))
    request = loop.submit("a", [*ids(0, 6), 90, 91], 1)
    first = loop.schedule()
    assert shape(first) == [("a", 6, 0, 0)]
    loop.commit(first)
    assert shape(loop.schedule()) == [("a", 6, 2, 1)]
    assert request.copied_len == 6


def test_with_the_null_cache_nothing_matches_and_everything_else_is_alike():
    warm, null = Loop(), Loop(cache=NullPrefixCache)
    for loop in (warm, null):
        for name in ("a", "b"):
            loop.submit(name, ids(0, 21), 2)
            loop.run()
    assert shape(warm.plans[0]) == shape(null.plans[0])
    assert shape(warm.plans[2]) == [("b", 20, 1, 1)]
    assert shape(null.plans[2]) == [("b", 0, 21, 1)]
    assert null.cache.stats.matched_tokens == 0


def test_plans_tell_time_only_as_they_are_given_it():
    loop = Loop()
    request = loop.submit("a", ids(0, 3), 2)
    assert request.first_scheduled_at is None
    plan = loop.scheduler.schedule(now=10)
    assert (request.first_scheduled_at, request.first_token_at) == (10, None)
    loop.scheduler.commit(plan, {"a": [5]}, now=20)
    assert (request.first_token_at, request.finished_at) == (20, None)
    plan = loop.scheduler.schedule(now=30)
    loop.scheduler.commit(plan, {"a": [6]}, now=40)
    assert (request.first_scheduled_at, request.first_token_at, request.finished_at) == (10, 20, 40)
