import pytest

from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids, shape


def decoding(num_pages: int = 64, **settings) -> Loop:
    loop = Loop(num_pages, 4, **settings)
    loop.submit("a", ids(0, 5), 20)
    loop.submit("b", ids(50, 7), 30)
    loop.step()
    return loop


def many(rows):
    return 1000


def test_one_token_a_step_where_nobody_asks_for_more():
    assert shape(decoding().schedule()) == [("a", 5, 1, 1), ("b", 7, 1, 1)]


def test_as_many_steps_as_the_horizon_says():
    assert shape(decoding().schedule(lambda rows: 7)) == [("a", 5, 1, 7), ("b", 7, 1, 7)]


def test_no_further_than_the_first_end():
    assert shape(decoding().schedule(many)) == [("a", 5, 1, 19), ("b", 7, 1, 19)]


@pytest.mark.parametrize("steps", [1, 0, -3])
def test_a_horizon_below_two_is_one_step(steps):
    assert shape(decoding().schedule(lambda rows: steps)) == [("a", 5, 1, 1), ("b", 7, 1, 1)]


def test_pages_are_there_for_all_tokens_but_the_last():
    loop = decoding()
    for row in loop.schedule(many).rows:
        sequence = row.request.sequence
        assert sequence.reserved_len >= sequence.num_tokens + row.max_tokens - 1


def test_never_while_a_prompt_is_computed():
    loop = decoding(prefill_chunk_tokens=4)
    loop.submit("c", ids(90, 6), 9)
    plan = loop.schedule(many)
    assert [row.max_tokens for row in plan.rows] == [1, 1, 0]
    loop.commit(plan)
    assert [row.max_tokens for row in loop.schedule(many).rows] == [1, 1, 1]


def test_never_over_the_last_token_of_a_prompt():
    loop = Loop(prefill_chunk_tokens=4)
    loop.submit("a", ids(0, 5), 20)
    loop.step()
    assert shape(loop.schedule(many)) == [("a", 4, 1, 1)]


def test_never_in_the_step_that_admits_somebody():
    loop = decoding()
    loop.submit("c", [99], 9)
    assert [row.max_tokens for row in loop.schedule(many).rows] == [1, 1, 1]


def test_not_where_pages_would_run_out():
    loop = Loop(4, 4)
    loop.submit("a", ids(0, 5), None)
    loop.step()
    assert shape(loop.schedule(many)) == [("a", 5, 1, 1)]


def test_not_in_a_step_that_threw_somebody_out():
    loop = Loop(12, 4)
    loop.let_expect(1)
    loop.submit("a", ids(0, 16), 24)
    loop.submit("b", ids(100, 13), 20)
    num_thrown_out = 0
    while not loop.scheduler.is_idle:
        plan = loop.schedule(lambda rows: 2)
        if plan.preempted:
            num_thrown_out += 1
            assert {row.max_tokens for row in plan.rows} == {1}
        loop.commit(plan)
    assert num_thrown_out


def test_a_request_without_a_limit_is_coalesced_too():
    loop = Loop()
    loop.submit("a", ids(0, 5), None)
    loop.step()
    assert shape(loop.schedule(lambda rows: 6)) == [("a", 5, 1, 6)]


def test_many_at_once_and_one_by_one_come_to_the_same():
    once, single = decoding(), decoding()
    once.commit(once.schedule(many))
    for _ in range(19):
        single.step()
    assert once.cache.pages == single.cache.pages
    assert once.scheduler.num_running == single.scheduler.num_running == 1
    assert shape(once.schedule()) == shape(single.schedule())


def test_an_end_within_a_coalesced_step_is_an_end():
    loop = decoding()
    finished = loop.commit(loop.schedule(many))
    assert [request.state for request in finished] == [RequestState.FINISHED]
