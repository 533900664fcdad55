from itertools import product

import numpy as np
import pytest

from radixcache import RadixCacheError, Tokens
from radixcache.errors import InvalidArgument, InvalidArgumentType, InvalidTokens, InvalidTokenType
from scheduler import Request, RequestState
from scheduler.errors import InvalidRequest, RequestStateError
from scheduler.request import TRANSITIONS

LEGAL = {
    ("new", "waiting"),
    ("waiting", "running"),
    ("waiting", "aborted"),
    ("waiting", "expired"),
    ("running", "preempted"),
    ("running", "finished"),
    ("running", "aborted"),
    ("running", "failed"),
    ("preempted", "running"),
    ("preempted", "aborted"),
    ("preempted", "failed"),
}
ALL = list(product(RequestState, RequestState))


def request_in(state: RequestState) -> Request:
    request = Request.of("a", [1], 1)
    request.state = state
    return request


def test_every_state_stands_in_the_table():
    assert set(TRANSITIONS) == set(RequestState)


@pytest.mark.parametrize(("old", "new"), [pair for pair in ALL if pair in LEGAL])
def test_legal_transitions_are_taken(old, new):
    request = request_in(old)
    request.enter(new)
    assert request.state is new


@pytest.mark.parametrize(("old", "new"), [pair for pair in ALL if pair not in LEGAL])
def test_every_other_transition_is_refused_by_name_and_changes_nothing(old, new):
    request = request_in(old)
    with pytest.raises(RequestStateError, match=f"'a' is {old}, it cannot become {new}"):
        request.enter(new)
    assert request.state is old


@pytest.mark.parametrize("state", ["finished", "aborted", "failed", "expired"])
def test_the_end_is_the_end(state):
    assert not TRANSITIONS[RequestState(state)]


@pytest.mark.parametrize("source", [[5, 6], (5, 6), np.array([5, 6]), Tokens([5, 6]), Tokens([5, 6]).data])
def test_a_prompt_comes_as_any_token_source(source):
    assert Request.of("a", source, 1).prompt == Tokens([5, 6])


@pytest.mark.parametrize("prompt", [[], (), np.array([], dtype=np.int32), Tokens([])])
def test_an_empty_prompt_is_refused(prompt):
    with pytest.raises(InvalidRequest, match="'a': a prompt has at least one token, got none"):
        Request.of("a", prompt, 1)


def test_the_class_itself_refuses_what_its_constructor_function_refuses():
    with pytest.raises(InvalidRequest):
        Request("a", Tokens([]), 1)
    with pytest.raises(InvalidRequest):
        Request("a", Tokens([1]), 0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"max_new_tokens": 0}, InvalidRequest, "max_new_tokens is at least 1, got 0"),
        ({"max_new_tokens": -4}, InvalidRequest, "max_new_tokens is at least 1, got -4"),
        ({"max_new_tokens": 2.5}, InvalidArgumentType, "max_new_tokens is an integer, got 2.5"),
        ({"priority": -1}, InvalidRequest, "priority is at least 0, got -1"),
        ({"priority": "high"}, InvalidArgumentType, "priority is an integer, got 'high'"),
        ({"retain": -1.0}, InvalidRequest, "retain is at least 0, got -1.0"),
        ({"retain": float("nan")}, InvalidArgument, "retain is a finite number"),
        ({"retain": "long"}, InvalidArgumentType, "retain is a number of seconds"),
        ({"namespace": 3}, InvalidArgumentType, "namespace"),
        ({"namespace": ("a", 1)}, InvalidArgumentType, "namespace"),
    ],
)
def test_a_setting_out_of_range_is_refused_before_it_can_reach_the_loop(settings, error, message):
    with pytest.raises(error, match=message) as caught:
        Request.of("a", [1], **{"max_new_tokens": 1, **settings})
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, (ValueError, TypeError))


@pytest.mark.parametrize(
    ("prompt", "error"), [([1, -2], InvalidTokens), ([2**31], InvalidTokens), (["x"], InvalidTokenType)]
)
def test_bad_token_ids_are_refused_as_the_cache_refuses_them(prompt, error):
    with pytest.raises(error):
        Request.of("a", prompt, 1)


def test_numpy_integers_are_taken_as_plain_ones():
    request = Request.of("a", [1], np.int16(300), priority=np.int8(3))
    assert (type(request.max_new_tokens), type(request.priority)) == (int, int)


def test_what_is_known_and_what_remains_follow_the_output():
    request = Request.of("a", [1, 2, 3], 5)
    request.output += [8, 9]
    assert (request.num_known, request.remaining) == (5, 3)
    assert request.known_tokens() == Tokens([1, 2, 3, 8, 9])


def test_without_a_limit_nothing_is_said_to_remain():
    assert Request.of("a", [1], None).remaining is None


def test_the_prompt_is_not_copied_while_there_is_no_output():
    request = Request.of("a", [1, 2], 1)
    assert request.known_tokens() is request.prompt


def test_tokens_computed_again_are_told_from_those_computed_first():
    request = Request.of("a", list(range(10)), 5)
    request.note_computed(2, 8)  # matched up to 2, thrown back at 8
    request.note_computed(4, 12)  # matched up to 4
    assert (request.prefill_tokens, request.recomputed_tokens) == (6 + 2, 4)


def test_a_gap_that_a_second_match_covered_was_never_computed():
    request = Request.of("a", list(range(10)), 5)
    request.note_computed(0, 2)
    request.note_computed(6, 10)
    assert (request.prefill_tokens, request.recomputed_tokens) == (6, 0)
