import re

import numpy as np
import pytest

from radixcache.errors import InvalidArgument
from runtime.errors import WorkloadError
from runtime.lab.order import AnswerTimes, first_requests, nominal_order
from runtime.workload import GENERATORS, OutputOf, Turn, prompt_of
from tests.unit.runtime.simulated import literal, turn, workload


def names(load) -> list[tuple[str, int]]:
    return [(session.session_id, number) for session, number in nominal_order(load)]


@pytest.mark.parametrize("generator", ["chat", "agents", "tree-of-thought"])
@pytest.mark.parametrize("count", [1, 5, 17])
def test_the_first_requests_are_those_that_come_first(generator, count):
    load = GENERATORS[generator](num_sessions=8).generate(0)
    cut = first_requests(load, count)
    assert cut.num_turns == count
    assert [name for name, _ in names(cut)] == [name for name, _ in names(load)[:count]]
    assert cut.notes[-1] == f"Only the first {count} of {load.num_turns:,} requests."


def test_turns_that_stay_are_numbered_anew_where_others_lay_between():
    late = Turn(segments=(literal(50, 2),), output_len=1, think_s=100.0)
    answer = Turn(segments=(OutputOf(0), literal(60, 1)), output_len=1, after=(0,))
    load = workload((0.0, [turn(0, 4, 3), late, answer]))
    (session,) = first_requests(load, 2).sessions
    kept = session.turns[1]
    assert (len(session.turns), kept.after) == (2, (0,))
    assert prompt_of(kept, {0: np.array([7, 8, 9], dtype=np.int32)}).tolist() == [7, 8, 9, 60]


def test_a_workload_of_fewer_requests_stays_as_it_is():
    load = workload((0.0, [turn(0, 4)]))
    assert first_requests(load, 1) is load
    assert first_requests(load, 99) is load


def test_at_least_one_request_is_kept():
    with pytest.raises(InvalidArgument, match="at least 1 request is kept, got 0"):
        first_requests(workload((0.0, [turn(0, 4)])), 0)


def served(load, answers: AnswerTimes) -> list[str]:
    return [f"{session.session_id}{number}" for session, number in nominal_order(load, answers)]


def test_the_longer_answers_take_the_later_the_next_turn_comes():
    follow_up = Turn(segments=(literal(1, 1),), output_len=1, after=(0,), think_s=1.0)
    load = workload((0.0, [turn(0, 4, 11), follow_up]), (2.0, [turn(0, 4)]), (5.0, [turn(0, 4)]))
    (first, second, third) = (session.session_id for session in load.sessions)
    assert served(load, AnswerTimes()) == [f"{first}0", f"{first}1", f"{second}0", f"{third}0"]
    assert served(load, AnswerTimes(token_s=0.15)) == [f"{first}0", f"{second}0", f"{first}1", f"{third}0"]
    slow = AnswerTimes(first_token_s=2.6, token_s=0.15)
    assert served(load, slow) == [f"{first}0", f"{second}0", f"{third}0", f"{first}1"]


def test_a_turn_comes_after_the_last_answer_it_waits_for_not_after_the_last_that_began():
    long, short = turn(0, 4, 101), turn(0, 4, 2)
    both = Turn(segments=(literal(1, 1),), output_len=1, after=(0, 1))
    load = workload(
        (0.0, [long, Turn(segments=short.segments, output_len=2, think_s=1.0), both]), (50.0, [short])
    )
    (first, second) = (session.session_id for session in load.sessions)
    assert served(load, AnswerTimes(token_s=1.0)) == [f"{first}0", f"{first}1", f"{second}0", f"{first}2"]


@pytest.mark.parametrize("time", [-1.0, 2e12, 1e300, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["first_token_s", "token_s"])
def test_answers_take_a_finite_time(name, time):
    with pytest.raises(
        InvalidArgument, match=re.escape(f"{name} is a finite time >= 0, at most 1e+12 s, got {time}")
    ):
        AnswerTimes(**{name: time})


def test_the_longest_times_have_an_order_too():
    longest = {"output_len": 2**30, "think_s": 1e12}
    first = Turn(segments=(literal(1, 1),), **longest)
    load = workload((1e12, [first, Turn(segments=(literal(1, 1),), after=(0,), **longest)]))
    name = load.sessions[0].session_id
    assert served(load, AnswerTimes(first_token_s=1e12, token_s=1e12)) == [f"{name}0", f"{name}1"]


@pytest.mark.parametrize("time", [-1.0, 2e12, 1e300, float("inf"), float("nan")])
def test_sessions_and_turns_come_at_times_that_can_be_reckoned_with(time):
    with pytest.raises(WorkloadError, match=r"start_s .* at most 1e\+12"):
        workload((time, [turn(0, 4)]))
    with pytest.raises(WorkloadError, match=r"think_s .* at most 1e\+12"):
        Turn(segments=(literal(1, 1),), output_len=1, think_s=time)
