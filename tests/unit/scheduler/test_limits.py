"""What a service needs: a queue that is never longer than it may be, and deadlines."""

import pytest

from radixcache import RadixCacheError
from scheduler import QUEUE_POLICIES, DeadlineMissed, QueueFull, RequestState
from tests.unit.scheduler.loop import Loop, ids

POLICIES = sorted(QUEUE_POLICIES)


def crowded(**settings: object) -> Loop:
    """One runs, three wait, and no more may."""
    loop = Loop(100, 4, max_running=1, max_waiting=3, **settings)
    loop.submit("running", ids(0, 8), 5)
    loop.step()
    for number in range(3):
        loop.submit(f"waiting{number}", ids(100 * number, 8), 1)
    return loop


def test_one_more_is_refused_with_the_limit_in_the_message():
    loop = crowded()
    with pytest.raises(
        QueueFull, match="request 'more' is refused: 3 requests wait, the most that may"
    ) as caught:
        loop.submit("more", ids(900, 8), 1)
    assert (caught.value.request_id, caught.value.max_waiting) == ("more", 3)
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, RuntimeError)


def test_a_refusal_changes_nothing_and_the_id_may_come_again():
    loop = crowded()
    with pytest.raises(QueueFull):
        loop.submit("more", ids(900, 8), 1)
    assert loop.scheduler.num_waiting == 3
    loop.abort("waiting1")
    more = loop.submit("more", ids(900, 8), 1)
    assert more.number == 4
    loop.run()
    assert more.state is RequestState.FINISHED


def test_a_preempted_request_returns_to_a_full_queue():
    loop = crowded()
    loop.scheduler.preempt("running")
    assert loop.scheduler.num_waiting == 4
    with pytest.raises(QueueFull):
        loop.submit("more", ids(900, 8), 1)
    loop.run()


# Deadlines


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_that_still_waits_after_its_deadline_ends(policy):
    loop = Loop(100, 4, policy=policy, max_running=1)
    loop.submit("first", ids(0, 8), 20)
    loop.step()
    late = loop.submit("late", ids(100, 8), 1, deadline=loop.now + 6)
    patient = loop.submit("patient", ids(200, 8), 1, deadline=loop.now + 1_000)
    loop.run()
    assert late.state is RequestState.EXPIRED
    assert late.first_scheduled_at is None
    assert late.finished_at > late.deadline
    assert patient.state is RequestState.FINISHED
    loop.assert_nothing_is_held()


def test_the_error_says_when_it_was_due_and_the_plan_that_it_ended():
    loop = Loop(100, 4, max_running=1)
    loop.submit("first", ids(0, 8), 9)
    loop.step()
    late = loop.submit("late", ids(100, 8), 1, deadline=loop.now + 2)
    plans = loop.run()
    assert isinstance(late.error, DeadlineMissed)
    assert isinstance(late.error, TimeoutError)
    assert f"its deadline was {late.deadline}" in str(late.error)
    assert [plan.failed for plan in plans if plan.failed] == [(late,)]


def test_at_the_deadline_itself_a_request_may_still_begin():
    loop = Loop(100, 4)
    request = loop.submit("just in time", ids(0, 8), 1, deadline=2)
    loop.step()
    assert request.first_scheduled_at == 2
    assert request.state is RequestState.FINISHED


@pytest.mark.parametrize("is_preempted", [True, False])
def test_a_request_that_began_is_not_ended_by_its_deadline(is_preempted):
    loop = Loop(100, 4)
    request = loop.submit("begun", ids(0, 8), 20, deadline=3)
    loop.step()
    if is_preempted:
        loop.scheduler.preempt("begun")
    loop.run()
    assert request.state is RequestState.FINISHED


def test_all_that_are_late_end_in_one_plan_in_the_order_of_their_deadlines():
    loop = Loop(100, 4, max_running=1)
    loop.submit("first", ids(0, 8), 9)
    loop.step()
    late = [loop.submit(f"late{n}", ids(100, 8), 1, deadline=20 - n) for n in range(4)]
    loop.now = 50
    plan = loop.step()
    assert plan.failed == tuple(reversed(late))
    assert loop.scheduler.num_waiting == 0


def test_a_held_request_expires_too():
    loop = Loop(100, 4, token_budget=24, prefill_chunk_tokens=4)
    loop.submit("leader", ids(0, 64), 1)
    loop.step()
    held = loop.submit("held", ids(0, 65), 1, deadline=loop.now + 4)
    loop.run()
    assert held.state is RequestState.EXPIRED


def test_deadlines_of_those_who_left_are_forgotten():
    loop = Loop(100, 4)
    for number in range(100):
        loop.submit(f"r{number}", ids(0, 8), 1, deadline=1e9)
        if number % 2:
            loop.abort(f"r{number}")
        loop.step()
    assert not loop.scheduler._roster.line.has_deadlines
    assert len(loop.scheduler._roster.line._deadlines) <= 17
