import pytest

from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids, shape


def with_copies() -> Loop:
    loop = Loop(num_pages=40, page_size=4, partial_reuse=True)
    loop.warm(ids(0, 8))
    return loop


def test_a_failed_step_is_planned_again_as_it_was():
    loop = Loop(prefill_chunk_tokens=8)
    loop.submit("a", ids(0, 30), 3)
    loop.submit("b", ids(100, 5), 3)
    while not loop.scheduler.is_idle:
        plan = loop.schedule()
        assert loop.discard(plan) == []
        again = loop.schedule()
        assert [row[1:] for row in shape(again)] == [row[1:] for row in shape(plan)]
        loop.commit(again)
    loop.assert_nothing_is_held()


def test_nothing_of_a_failed_step_counts_as_computed_or_becomes_visible():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 30), 3)
    loop.discard(loop.schedule())
    assert (request.prefill_tokens, request.sequence.computed_len, request.output) == (0, 0, [])
    assert loop.matched(ids(0, 30)) == 0
    loop.run()
    assert (request.prefill_tokens, request.recomputed_tokens) == (30, 0)


def test_a_request_whose_copies_may_not_have_run_starts_anew():
    loop = with_copies()
    request = loop.submit("a", [*ids(0, 6), 90, 91], 2)
    plan = loop.schedule()
    assert plan.copies
    assert loop.discard(plan) == [request]
    assert (request.state, request.sequence, request.num_preemptions) == (RequestState.PREEMPTED, None, 1)
    loop.assert_nothing_is_held()
    second = loop.schedule()
    assert shape(second) == shape(plan)
    assert [copy.num_tokens for copy in second.copies] == [2]
    loop.commit(second)
    loop.run()
    assert request.recomputed_tokens == 0
    assert (request.matched_len, request.copied_len, request.prefill_tokens) == (4, 2, 2)


def test_the_others_of_that_step_keep_what_they_have():
    loop = with_copies()
    running = loop.submit("a", ids(500, 6), 5)
    loop.step()
    copying = loop.submit("b", [*ids(0, 6), 90, 91], 2)
    plan = loop.schedule()
    assert loop.discard(plan) == [copying]
    assert running.state is RequestState.RUNNING
    loop.run()
    assert (len(running.output), len(copying.output)) == (5, 2)


def test_a_page_of_an_undone_copy_is_never_published():
    loop = with_copies()
    prompt = [*ids(0, 6), 90, 91, 92]
    loop.submit("a", prompt, 1)
    loop.discard(loop.schedule())
    assert loop.matched(prompt) == 4


@pytest.mark.parametrize("num_failures", [1, 2, 7])
def test_failure_after_failure_loses_no_page_and_no_request(num_failures):
    loop = with_copies()
    requests = [loop.submit(f"r{n}", [*ids(0, 5 + n), 90 + n, 95], 3) for n in range(3)]
    for _ in range(num_failures):
        plan = loop.schedule()
        if plan:
            loop.discard(plan)
    loop.run()
    assert {request.state for request in requests} == {RequestState.FINISHED}
    loop.assert_nothing_is_held()


def test_a_row_aborted_before_the_failure_is_left_alone():
    loop = with_copies()
    request = loop.submit("a", [*ids(0, 6), 90, 91], 2)
    plan = loop.schedule()
    loop.abort("a")
    assert loop.discard(plan) == []
    assert request.state is RequestState.ABORTED
    loop.assert_nothing_is_held()


def test_a_coalesced_step_that_failed_generated_nothing():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), 20)
    loop.step()
    plan = loop.schedule(horizon=lambda rows: 9)
    loop.discard(plan)
    assert len(request.output) == 1
    assert shape(loop.schedule()) == [("a", 4, 1, 1)]
    loop.commit(loop.plans[-1])
    loop.run()
    assert len(request.output) == 20
