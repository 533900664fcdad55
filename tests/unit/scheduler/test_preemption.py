from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import PreemptReason, Request, RequestState
from scheduler.preemption import choose_victim
from tests.unit.scheduler.loop import ENDED, Loop, ids


def running(number: int, work: int, matched: int = 0):
    return SimpleNamespace(
        number=number, own_from=matched, sequence=SimpleNamespace(computed_len=matched + work)
    )


def tight(num_pages: int = 12, *requests: tuple[int, int]) -> tuple[Loop, list]:
    """Requests of (prompt length, output length) that outgrow the pool, contrary to what was expected."""
    loop = Loop(num_pages, 4)
    loop.let_expect(1)
    made = [loop.submit(f"r{n}", ids(1000 * (n + 1), p), o) for n, (p, o) in enumerate(requests)]
    return loop, made


def test_a_lone_request_has_no_victim():
    assert choose_victim([]) is None
    assert choose_victim([running(3, 9)]) is None


def test_the_least_work_is_lost():
    requests = [running(0, 50), running(1, 30), running(2, 10), running(3, 20)]
    assert choose_victim(requests).number == 2


def test_only_own_work_counts_not_what_was_matched():
    assert choose_victim([running(0, 1), running(1, 5, matched=100), running(2, 6)]).number == 1


def test_of_equals_the_youngest_goes():
    assert choose_victim([running(0, 9), running(4, 9), running(2, 9)]).number == 4


def test_the_oldest_stays_even_if_it_lost_least():
    assert choose_victim([running(0, 0), running(1, 99)]).number == 1


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 20)), min_size=2, unique_by=lambda pair: pair[0])
)
def test_the_victim_is_the_least_of_all_but_the_oldest(pairs):
    requests = [running(number, work) for number, work in pairs]
    oldest = min(number for number, _ in pairs)
    others = sorted((work, -number) for number, work in pairs if number != oldest)
    victim = choose_victim(requests)
    assert (victim.sequence.computed_len, -victim.number) == others[0]


def test_what_was_computed_is_published_before_the_pages_go():
    loop, (_, young) = tight(12, (16, 24), (13, 20))
    while young.state is not RequestState.PREEMPTED:
        loop.step()
    known = [*ids(2000, 13), *young.output]
    plan = next(plan for plan in loop.plans if young in plan.preempted)
    assert young.sequence is None
    assert loop.matched(known) >= (len(known) - 1) // 4 * 4 - 4  # one page was taken for the other
    assert plan.rows
    loop.run()
    assert len(young.output) == 20


def test_a_preempted_request_goes_on_where_it_was():
    loop, (old, young) = tight(12, (16, 24), (13, 20))
    loop.run()
    assert (len(old.output), len(young.output)) == (24, 20)
    assert young.num_preemptions == 1
    assert old.num_preemptions == 0
    assert (young.matched_len, young.prefill_tokens) == (0, 13)
    loop.assert_nothing_is_held()


def test_a_preempted_row_is_not_in_the_plan():
    loop, (_, young) = tight(12, (16, 24), (13, 20))
    loop.run()
    (plan,) = [plan for plan in loop.plans if plan.preempted]
    assert plan.preempted == (young,)
    assert young not in [row.request for row in plan.rows]


def test_nobody_is_admitted_in_a_step_that_threw_somebody_out():
    loop, _ = tight(12, (16, 24), (13, 20), (1, 1), (1, 1))
    for plan in loop.run():
        if plan.preempted:
            assert all(row.start > 0 for row in plan.rows)


@pytest.mark.parametrize("num_requests", [3, 5, 8])
def test_it_returns_only_after_a_running_one_ended(num_requests):
    loop, requests = tight(14, *[(9 + n, 20 + n) for n in range(num_requests)])
    ended_when_preempted = {}
    num_returns = 0
    while not loop.scheduler.is_idle:
        plan = loop.step()
        num_ended = sum(request.state in ENDED for request in requests)
        for request in requests:
            if request in plan.preempted:
                ended_when_preempted[request] = num_ended
            elif request.state is RequestState.RUNNING and request in ended_when_preempted:
                assert num_ended > ended_when_preempted.pop(request)
                num_returns += 1
    assert num_returns


def thrown_out_with_room_to_return() -> tuple[Loop, Request, Request]:
    """`young` reserved more than it needs, as in speculation: it would fit again at once."""
    loop = Loop(8, 4)
    old, young = loop.submit("old", ids(1000, 4), 16), loop.submit("young", ids(2000, 4), 6)
    loop.step()
    plan = loop.schedule(lambda rows: 5)
    young.sequence.reserve(13)
    loop.commit(plan, {"old": ids(70, 5), "young": [75]})
    while young.state is RequestState.RUNNING:
        loop.step()
    assert young.state is RequestState.PREEMPTED
    return loop, old, young


def test_room_alone_lets_nobody_back():
    loop, old, young = thrown_out_with_room_to_return()
    while old.state is RequestState.RUNNING:
        assert young.state is RequestState.PREEMPTED
        loop.step()
    loop.run()
    assert (young.state, young.num_preemptions) == (RequestState.FINISHED, 1)


def test_an_aborted_waiting_request_lets_nobody_back():
    loop, _, young = thrown_out_with_room_to_return()
    loop.submit("waiting", ids(3000, 20), 1)
    loop.abort("waiting")
    loop.step()
    assert young.state is RequestState.PREEMPTED


@pytest.mark.parametrize("num_requests", [2, 4, 7, 10])
@pytest.mark.parametrize("num_pages", [13, 17, 21])
def test_preemptions_of_one_are_bounded_by_the_ends_of_others(num_requests, num_pages):
    loop, requests = tight(num_pages, *[(5 + 3 * n % 11, 20 + 7 * n % 13) for n in range(num_requests)])
    loop.run()
    assert {request.state for request in requests} == {RequestState.FINISHED}
    assert max(request.num_preemptions for request in requests) <= num_requests - 1
    assert requests[0].num_preemptions == 0


def test_nobody_new_is_admitted_while_a_preempted_one_waits():
    loop, requests = tight(16, *[(9, 30)] * 4, (3, 4), (3, 4))
    num_preempted = 0
    while not loop.scheduler.is_idle:
        waited = [request for request in requests if request.state is RequestState.WAITING]
        loop.step()
        if any(request.state is RequestState.PREEMPTED for request in requests):
            num_preempted += 1
            assert all(request.state is RequestState.WAITING for request in waited)
    assert num_preempted


def test_the_preempted_come_back_in_number_order():
    loop, requests = tight(16, *[(9, 30)] * 4)
    most_out = 0
    while not loop.scheduler.is_idle:
        out = [request for request in requests if request.state is RequestState.PREEMPTED]
        most_out = max(most_out, len(out))
        loop.step()
        still_out = [request.state is RequestState.PREEMPTED for request in out]
        assert still_out == sorted(still_out)
    assert most_out > 1


def test_recomputed_tokens_are_those_that_others_evicted():
    loop, (old, young) = tight(12, (16, 24), (13, 20))
    while young.state is not RequestState.PREEMPTED:
        loop.step()
    was_computed = len(young.prompt) + len(young.output) - 1
    while young.state is not RequestState.RUNNING:
        loop.step()
    resumed = next(row for row in loop.plans[-1].rows if row.request is young)
    loop.run()
    assert young.recomputed_tokens == was_computed - resumed.start
    assert old.recomputed_tokens == 0


def test_there_is_a_reason_for_every_preemption():
    assert {reason.value for reason in PreemptReason} >= {"out_of_pages", "step_failed"}
