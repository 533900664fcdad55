import pytest

from radixcache.errors import InvalidConfig
from runtime.clock import PS_PER_S
from runtime.simulation import ClosedLoop, OpenLoop
from runtime.simulation.arrivals import Arrivals
from tests.unit.runtime.simulated import follow_up, turn, workload

FOREVER = 10**6 * PS_PER_S


def due(arrivals: Arrivals, now_s: float) -> list[str]:
    return [arrival.request_id for arrival in arrivals.due(round(now_s * PS_PER_S))]


def take(arrivals: Arrivals, now_s: float = 10**6) -> dict[str, object]:
    return {arrival.request_id: arrival for arrival in arrivals.due(round(now_s * PS_PER_S))}


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf")])
def test_a_rate_scale_out_of_range_is_refused(scale):
    with pytest.raises(InvalidConfig, match=f"rate scale is a finite number > 0, got {scale}"):
        OpenLoop(scale)


@pytest.mark.parametrize("users", [0, -3])
def test_no_users_are_refused(users):
    with pytest.raises(InvalidConfig, match=f"number of users is at least 1, got {users}"):
        ClosedLoop(users)


def test_sessions_start_when_the_workload_says():
    arrivals = Arrivals(workload((1.0, [turn(0, 3)]), (2.5, [turn(0, 3)]), (2.5, [turn(0, 3)])), OpenLoop())
    assert arrivals.next_time() == PS_PER_S
    assert due(arrivals, 0.5) == []
    assert due(arrivals, 1.0) == ["s0/0"]
    assert due(arrivals, 9.0) == ["s1/0", "s2/0"]
    assert arrivals.next_time() is None


def test_a_rate_scale_makes_starts_denser_and_leaves_pauses():
    first = turn(0, 3, think_s=2.0)
    arrivals = Arrivals(workload((8.0, [first, follow_up(first, 0, 50, 2, think_s=3.0)])), OpenLoop(4.0))
    assert arrivals.next_time() == 4 * PS_PER_S
    (arrival,) = arrivals.due(4 * PS_PER_S)
    arrivals.finished(arrival, [9], 10 * PS_PER_S)
    assert arrivals.next_time() == 13 * PS_PER_S


def test_a_turn_comes_when_its_answer_is_there_and_the_pause_is_over():
    first = turn(0, 3)
    second = follow_up(first, 0, 50, 2, think_s=1.5)
    arrivals = Arrivals(workload((0.0, [first, second])), OpenLoop())
    (arrival,) = arrivals.due(0)
    assert arrivals.next_time() is None
    arrivals.finished(arrival, [70, 71], 4 * PS_PER_S)
    (later,) = arrivals.due(FOREVER)
    assert later.time_ps == round(5.5 * PS_PER_S)
    assert arrivals.prompt(later).tolist() == [0, 1, 2, 70, 71, 50, 51]


def test_a_turn_that_waits_for_several_comes_after_the_last_of_them():
    parts = [turn(0, 2), turn(10, 2), turn(20, 2)]
    join = turn(30, 2, after=(0, 1, 2))
    arrivals = Arrivals(workload((0.0, [*parts, join])), OpenLoop())
    waiting = take(arrivals)
    for number, time_s in ((2, 3), (0, 9)):
        arrivals.finished(waiting[f"s0/{number}"], [1], time_s * PS_PER_S)
        assert arrivals.next_time() is None
    arrivals.finished(waiting["s0/1"], [1], 11 * PS_PER_S)
    assert arrivals.next_time() == 11 * PS_PER_S


def test_equal_times_come_in_the_order_of_the_workload():
    arrivals = Arrivals(workload(*[(1.0, [turn(0, 2), turn(5, 2)]) for _ in range(4)]), OpenLoop())
    assert due(arrivals, 1.0) == [f"s{session}/{number}" for session in range(4) for number in range(2)]


def test_a_session_that_starts_while_another_thinks_comes_in_between():
    first = turn(0, 2)
    arrivals = Arrivals(
        workload((0.0, [first, follow_up(first, 0, 9, 2, think_s=5.0)]), (3.0, [turn(40, 2)])), OpenLoop()
    )
    (arrival,) = arrivals.due(0)
    arrivals.finished(arrival, [1], PS_PER_S)
    assert due(arrivals, 100) == ["s1/0", "s0/1"]


def test_users_start_at_once_and_again_when_they_are_done():
    load = workload(*[(100.0 * number, [turn(0, 2)]) for number in range(5)])
    arrivals = Arrivals(load, ClosedLoop(2))
    running = take(arrivals, 0)
    assert list(running) == ["s0/0", "s1/0"]
    assert arrivals.next_time() is None
    arrivals.finished(running["s1/0"], [1], 7 * PS_PER_S)
    assert arrivals.next_time() == 7 * PS_PER_S
    assert due(arrivals, 7) == ["s2/0"]


def test_more_users_than_sessions_are_no_harm():
    arrivals = Arrivals(workload((0.0, [turn(0, 2)])), ClosedLoop(9))
    running = take(arrivals, 0)
    arrivals.finished(running["s0/0"], [1], 1)
    assert arrivals.next_time() is None


def test_a_user_whose_session_broke_off_starts_the_next():
    first = turn(0, 2)
    load = workload((0.0, [first, follow_up(first, 0, 9, 2)]), (0.0, [turn(50, 2)]))
    arrivals = Arrivals(load, ClosedLoop(1))
    running = take(arrivals, 0)
    assert arrivals.broken_off(running["s0/0"], 4 * PS_PER_S) == 1
    assert due(arrivals, 4) == ["s1/0"]


def test_all_that_follow_a_broken_turn_are_lost_and_counted_once():
    turns = [
        turn(0, 2),
        turn(10, 2),
        turn(20, 2, after=(0,)),
        turn(30, 2, after=(0, 1)),
        turn(40, 2, after=(2, 3)),
        turn(50, 2, after=(1,)),
    ]
    arrivals = Arrivals(workload((0.0, turns)), ClosedLoop(1))
    waiting = take(arrivals, 0)
    assert arrivals.broken_off(waiting["s0/0"], 1) == 3
    arrivals.finished(waiting["s0/1"], [1], 2)
    assert list(take(arrivals)) == ["s0/5"]


@pytest.mark.parametrize("num_parts", [2, 3, 5])
def test_parts_that_break_off_one_after_another_lose_their_join_once(num_parts):
    parts = [turn(10 * number, 2) for number in range(num_parts)]
    join = turn(90, 2, after=tuple(range(num_parts)))
    arrivals = Arrivals(workload((0.0, [*parts, join]), (0.0, [turn(70, 2)])), ClosedLoop(1))
    waiting = take(arrivals, 0)
    lost = [arrivals.broken_off(waiting[f"s0/{number}"], number) for number in range(num_parts)]
    assert lost == [1] + [0] * (num_parts - 1)
    assert due(arrivals, 1) == ["s1/0"]


def test_a_session_goes_on_beside_a_broken_part():
    parts = [turn(0, 2), turn(10, 2), turn(20, 2)]
    join = turn(90, 2, after=(0, 1, 2))
    last = turn(95, 2, after=(2,))
    arrivals = Arrivals(workload((0.0, [*parts, join, last]), (0.0, [turn(70, 2)])), ClosedLoop(1))
    waiting = take(arrivals, 0)
    assert arrivals.broken_off(waiting["s0/0"], 1) == 1
    assert arrivals.broken_off(waiting["s0/1"], 2) == 0
    arrivals.finished(waiting["s0/2"], [1], 3)
    rest = take(arrivals)
    assert list(rest) == ["s0/4"]
    arrivals.finished(rest["s0/4"], [1], 5)
    assert list(take(arrivals)) == ["s1/0"]
