import pytest

from radixcache import NullPrefixCache
from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids, prefill_of, shape


def test_each_chunk_is_visible_once_it_is_committed_and_not_before():
    loop = Loop(page_size=4, prefill_chunk_tokens=8)
    prompt = ids(0, 32)
    loop.submit("a", prompt, 1)
    for done in (8, 16, 24, 32):
        plan = loop.schedule()
        assert loop.matched(prompt) == done - 8
        loop.commit(plan)
        assert loop.matched(prompt) == done


def test_a_chunk_publishes_its_full_pages_only():
    loop = Loop(page_size=4, prefill_chunk_tokens=6)
    prompt = ids(0, 20)
    loop.submit("a", prompt, 1)
    seen = []
    while not loop.scheduler.is_idle:
        loop.step()
        seen.append(loop.matched(prompt))
    assert seen == [4, 12, 16, 20]


def test_output_pages_become_visible_at_the_end():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), 9)
    for _ in range(8):
        loop.step()
    assert loop.matched([*ids(0, 4), *request.output]) == 4
    loop.step()
    assert request.state is RequestState.FINISHED
    assert loop.matched([*ids(0, 4), *request.output]) == 12


def test_the_last_token_has_no_kv_and_is_not_published():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), 4)
    loop.run()
    assert len(request.output) == 4
    assert loop.matched([*ids(0, 4), *request.output]) == 4


def test_a_planned_but_unwritten_prompt_is_not_there_for_others():
    loop = Loop(page_size=4)
    prompt = ids(0, 9)
    loop.submit("a", prompt, 1)
    plan = loop.schedule()
    loop.abort("a")
    assert loop.matched(prompt) == 0
    loop.commit(plan, {"a": [1]})
    assert loop.matched(prompt) == 0
    late = loop.submit("b", prompt, 1)
    loop.run()
    assert late.matched_len == 0


def test_equal_prompts_in_one_batch_do_not_read_each_others_unwritten_pages():
    loop = Loop(page_size=4, share_in_flight=False)
    prompt = ids(0, 13)
    first, second = loop.submit("a", prompt, 3), loop.submit("b", prompt, 3)
    assert shape(loop.step()) == [("a", 0, 13, 1), ("b", 0, 13, 1)]
    shared = first.sequence.page_table[:3].tolist()
    assert second.sequence.page_table[:3].tolist() == shared
    loop.run()
    assert (first.matched_len, second.matched_len) == (0, 0)
    assert loop.cache.stats.duplicate_pages == 3


def test_cancelling_one_of_two_equal_prompts_publishes_only_the_others():
    loop = Loop(page_size=4, share_in_flight=False)
    prompt = ids(0, 13)
    loop.submit("a", prompt, 1)
    loop.submit("b", prompt, 1)
    plan = loop.schedule()
    loop.abort("a")
    loop.commit(plan)
    assert loop.matched(prompt) == 12
    loop.assert_nothing_is_held()


def test_the_next_step_reads_what_the_last_one_wrote():
    loop = Loop(page_size=4, max_running=2)
    prompt = ids(0, 13)
    loop.submit("a", prompt, 5)
    loop.step()
    late = loop.submit("b", prompt, 1)
    assert shape(loop.step()) == [("a", 13, 1, 1), ("b", 12, 1, 1)]
    assert late.matched_len == 12


@pytest.mark.parametrize("read", [True, False])
def test_a_request_that_may_not_write_still_remembers_its_own_progress(read):
    loop = Loop(page_size=4, prefill_chunk_tokens=8)
    request = loop.submit("a", ids(0, 40), 1, read=read, write=False)
    assert prefill_of(loop.run(), request) == [(0, 8), (8, 8), (16, 8), (24, 8), (32, 8)]
    assert loop.matched(ids(0, 40)) == 0
    assert loop.cache.pages.free == loop.cache.pages.total


def test_a_request_that_may_not_read_matches_and_counts_nothing():
    loop = Loop(page_size=4)
    loop.warm(ids(0, 40))
    lookups = loop.cache.stats.lookups
    request = loop.submit("a", ids(0, 40), 1, read=False)
    loop.run()
    assert (request.matched_len, request.missed_tokens, request.prefill_tokens) == (0, {}, 40)
    assert loop.cache.stats.lookups == lookups


def test_the_next_turn_finds_prompt_and_output():
    loop = Loop(page_size=4)
    first = loop.submit("a", ids(0, 6), 7)
    loop.run()
    history = [*ids(0, 6), *first.output]
    second = loop.submit("b", [*history, *ids(500, 5)], 1)
    loop.run()
    assert second.matched_len == 12


def test_namespaces_share_nothing():
    loop = Loop(page_size=4)
    requests = [loop.submit(f"{space}", ids(0, 9), 1, namespace=space) for space in (None, "a", ("a", "b"))]
    loop.run()
    again = [loop.submit(f"{space} 2", ids(0, 9), 1, namespace=space) for space in (None, "a", ("a", "b"))]
    loop.run()
    assert [request.matched_len for request in requests] == [0, 0, 0]
    assert [request.matched_len for request in again] == [8, 8, 8]


def test_the_null_cache_keeps_nothing_between_requests():
    loop = Loop(cache=NullPrefixCache)
    loop.submit("a", ids(0, 21), 3)
    loop.run()
    assert loop.cache.pages.free == loop.cache.pages.total
