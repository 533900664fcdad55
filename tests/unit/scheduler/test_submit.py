import pytest

from radixcache import RadixCacheError
from scheduler import Request, RequestState, RequestTooLong
from scheduler.errors import InvalidRequest
from tests.unit.scheduler.loop import Loop, ids


@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("output_len", [1, 2, 7])
def test_exactly_the_usable_pool_is_served(page_size, output_len):
    loop = Loop(8, page_size)
    request = loop.submit("a", ids(0, 8 * page_size - output_len + 1), output_len)
    loop.run()
    assert (request.state, len(request.output)) == (RequestState.FINISHED, output_len)


@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("output_len", [1, 2, 7])
def test_one_token_more_is_refused_with_the_largest_that_can_be_served(page_size, output_len):
    loop, usable = Loop(8, page_size), 8 * page_size
    with pytest.raises(
        RequestTooLong, match=f"'a' needs KV for {usable + 1} tokens, the pool holds at most {usable}"
    ) as caught:
        loop.submit("a", ids(0, usable - output_len + 2), output_len)
    error = caught.value
    assert isinstance(error, RadixCacheError)
    assert isinstance(error, ValueError)
    assert (error.request_id, error.num_tokens, error.max_tokens) == ("a", usable + 1, usable)
    assert loop.scheduler.max_tokens == usable


def test_a_refused_request_blocks_nobody_and_may_come_back_shorter():
    loop = Loop(2, 4)
    with pytest.raises(RequestTooLong):
        loop.submit("a", ids(0, 9), 1)
    assert loop.scheduler.is_idle
    shorter = loop.submit("a", ids(0, 8), 1)
    loop.run()
    assert shorter.state is RequestState.FINISHED
    assert shorter.number == 0


def test_without_an_output_limit_the_prompt_alone_has_to_fit():
    loop = Loop(2, 4)
    with pytest.raises(RequestTooLong):
        loop.submit("a", ids(0, 9), None)
    loop.submit("b", ids(0, 8), None)
    assert loop.scheduler.num_waiting == 1


def test_a_prefix_in_the_cache_does_not_make_the_impossible_possible():
    loop = Loop(2, 4)
    loop.warm(ids(0, 8))
    with pytest.raises(RequestTooLong):
        loop.submit("a", ids(0, 9), 1)


def test_a_taken_id_is_refused_and_free_again_after_the_end():
    loop = Loop()
    loop.submit("a", [1, 2], 1)
    with pytest.raises(InvalidRequest, match="'a' was submitted before"):
        loop.submit("a", [3], 1)
    assert loop.scheduler.num_waiting == 1
    loop.run()
    loop.submit("a", [3], 1)
    loop.run()


@pytest.mark.parametrize("end", ["run", "abort"])
def test_a_request_lives_once(end):
    loop = Loop()
    request = loop.submit("a", [1, 2], 1)
    if end == "run":
        loop.run()
    else:
        loop.abort("a")
    with pytest.raises(InvalidRequest, match="was submitted before"):
        loop.scheduler.submit(request, loop.now)
    assert loop.scheduler.is_idle


def test_requests_are_numbered_in_order_of_submission_and_know_when_it_was():
    loop = Loop()
    first, second = loop.submit("a", [1], 1), loop.submit("b", [2], 1)
    assert (first.number, second.number) == (0, 1)
    assert (first.submitted_at, second.submitted_at) == (1, 2)


def test_a_refused_request_gets_no_number():
    loop = Loop(2, 4)
    request = Request.of("long", ids(0, 9), 1)
    with pytest.raises(RequestTooLong):
        loop.scheduler.submit(request, 0)
    assert (request.state, request.number) == (RequestState.NEW, -1)
    assert loop.submit("a", [1], 1).number == 0
