"""Field faults C03 to C05 and D01 to D05, as far as they are the scheduler's."""

import pytest

from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids, prefill_of


def test_c03_an_uncached_rest_of_300_is_one_chunk_of_300_and_no_empty_one():
    loop = Loop(400, 4, prefill_chunk_tokens=512)
    loop.warm(ids(0, 600))
    request = loop.submit("a", ids(0, 900), 4)
    plans = loop.run()
    assert prefill_of(plans, request) == [(600, 300)]
    assert all(row.extend_len for plan in plans for row in plan.rows)


def test_c04_reuse_exceeds_a_chunk_and_is_reported_once():
    loop = Loop(400, 4, prefill_chunk_tokens=64)
    loop.warm(ids(0, 640))
    request = loop.submit("a", [*ids(0, 640), *ids(5000, 130)], 1)
    first = loop.step()
    assert [row.start for row in first.rows] == [640]
    assert request.matched_len == 640
    loop.run()
    assert loop.cache.stats.matched_tokens == 640
    assert request.matched_len + request.prefill_tokens == 770


def test_c05_work_is_what_the_match_left_also_for_ones_own_old_pages():
    loop = Loop(12, 4, token_budget=16)
    loop.let_expect(1)
    loop.submit("old", ids(0, 16), 24)
    young = loop.submit("young", ids(100, 13), 20)
    while young.state is not RequestState.PREEMPTED:
        loop.step()
    known = young.num_known
    while young.state is RequestState.PREEMPTED:
        plan = loop.step()
    (row,) = [row for row in plan.rows if row.request is young]
    assert row.start > 0
    assert row.start % 4 == 0
    assert row.start + row.extend_len == known
    assert plan.num_tokens <= 16


def test_d01_preempted_before_its_pages_were_written():
    loop = Loop(12, 4, prefill_chunk_tokens=16)
    loop.let_expect(1)
    loop.submit("old", ids(0, 8), 24)
    loop.step()
    prompt = ids(100, 24)
    young = loop.submit("young", prompt, 8)
    while young.state is not RequestState.PREEMPTED:
        plan = loop.schedule()
        assert loop.matched(prompt) <= young.ever_computed
        loop.commit(plan)
    twin = loop.submit("twin", prompt, 1)
    loop.run()
    assert twin.matched_len <= 20
    loop.assert_nothing_is_held()


@pytest.mark.parametrize("how", ["abort", "discard"])
def test_d01_a_step_that_never_ran_leaves_nothing_to_match(how):
    loop = Loop(page_size=4)
    prompt = ids(0, 21)
    loop.submit("a", prompt, 1)
    plan = loop.schedule()
    if how == "discard":
        loop.discard(plan)
    loop.abort("a")
    if how == "abort":
        loop.commit(plan, {})
    twin = loop.submit("b", prompt, 1)
    loop.run()
    assert twin.matched_len == 0


def test_d02_the_second_of_a_batch_never_counts_on_what_the_first_has_not_computed():
    loop = Loop(page_size=4, prefill_chunk_tokens=8, share_in_flight=False)
    prompt = ids(0, 33)
    requests = [loop.submit(name, prompt, 2) for name in "abc"]
    first = loop.schedule()
    assert [(row.start, row.extend_len) for row in first.rows] == [(0, 8)] * 3
    loop.commit(first)
    loop.run()
    for request in requests:
        assert request.matched_len + request.prefill_tokens == 33
        assert request.matched_len == 0


def test_d03_pages_published_chunk_by_chunk_stay_with_the_tree_after_an_abort():
    loop = Loop(page_size=4, prefill_chunk_tokens=10)
    prompt = ids(0, 30)
    loop.submit("a", prompt, 1)
    loop.step()
    loop.step()
    loop.abort("a")
    assert loop.cache.pages.evictable == 5
    assert loop.cache.pages.private == 0
    twin = loop.submit("b", prompt, 1)
    loop.run()
    assert twin.matched_len == 20


@pytest.mark.parametrize("read", [True, False])
def test_d04_no_publishing_is_not_forgetting(read):
    loop = Loop(page_size=4, prefill_chunk_tokens=8)
    request = loop.submit("a", ids(0, 40), 1, read=read, write=False)
    assert len(prefill_of(loop.run(), request)) == 5
    assert loop.cache.pages.free == loop.cache.pages.total


def test_d05_publishing_at_unaligned_lengths_step_after_step():
    loop = Loop(page_size=4, prefill_chunk_tokens=3)
    prompt = ids(0, 23)
    loop.submit("a", prompt, 3)
    loop.submit("b", prompt, 3)
    loop.run()
    loop.assert_nothing_is_held()
    assert loop.matched(prompt) == 20
