import pytest

from radixcache import NullPrefixCache, PrefixCache
from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids, shape


@pytest.fixture(params=[PrefixCache, NullPrefixCache])
def loop(request):
    return Loop(num_pages=40, page_size=4, cache=request.param, prefill_chunk_tokens=8)


def assert_aborted(loop, request):
    assert request.state is RequestState.ABORTED
    assert request.finished_at is not None
    assert request.sequence is None
    assert loop.scheduler.is_idle
    loop.assert_nothing_is_held()
    assert not loop.abort("a")


def test_nobody_there():
    assert not Loop().abort("nobody")


def test_while_it_waits(loop):
    request = loop.submit("a", ids(0, 30), 5)
    assert loop.abort("a")
    assert_aborted(loop, request)
    assert not loop.schedule()


@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_in_prefill_between_two_plans(loop, num_steps):
    request = loop.submit("a", ids(0, 30), 5)
    for _ in range(num_steps):
        loop.step()
    assert loop.abort("a")
    assert_aborted(loop, request)


@pytest.mark.parametrize("num_steps", [4, 5, 7])
def test_in_decode_between_two_plans(loop, num_steps):
    request = loop.submit("a", ids(0, 30), 5)
    for _ in range(num_steps):
        loop.step()
    assert len(request.output) == num_steps - 3
    assert loop.abort("a")
    assert_aborted(loop, request)


@pytest.mark.parametrize("num_steps", range(8))
@pytest.mark.parametrize("with_output", [True, False])
def test_between_schedule_and_commit(loop, num_steps, with_output):
    request = loop.submit("a", ids(0, 30), 5)
    other = loop.submit("b", ids(500, 30), 9)
    for _ in range(num_steps):
        loop.step()
    plan = loop.schedule()
    outputs = loop.outputs(plan)
    done = len(request.output)
    assert loop.abort("a")
    if not with_output:
        outputs.pop("a", None)
    loop.commit(plan, outputs)
    assert len(request.output) == done
    loop.run()
    assert (other.state, len(other.output)) == (RequestState.FINISHED, 9)
    assert_aborted(loop, request)


def test_all_rows_of_an_open_plan(loop):
    for name in "abc":
        loop.submit(name, ids(ord(name) * 100, 6), 2)
    plan = loop.schedule()
    for name in "abc":
        assert loop.abort(name)
    assert loop.commit(plan, {}) == []
    assert loop.scheduler.is_idle
    loop.assert_nothing_is_held()


def test_while_it_is_preempted():
    loop = Loop(num_pages=6, page_size=4)
    loop.let_expect(1)
    loop.submit("old", ids(0, 8), 13)
    request = loop.submit("a", ids(100, 3), 10)
    while request.state is not RequestState.PREEMPTED:
        assert loop.step(), "the pool was meant to be too small"
    assert loop.abort("a")
    loop.run()
    assert_aborted(loop, request)


def test_the_id_may_come_again_while_the_old_plan_is_open(loop):
    old = loop.submit("a", ids(0, 6), 2)
    plan = loop.schedule()
    loop.abort("a")
    new = loop.submit("a", ids(50, 6), 2)
    loop.commit(plan, {"a": [7]})
    assert (old.output, new.output, new.state) == ([], [], RequestState.WAITING)
    loop.run()
    assert len(new.output) == 2


def test_what_was_published_stays_and_is_found_again():
    loop = Loop(page_size=4, prefill_chunk_tokens=8)
    prompt = ids(0, 30)
    loop.submit("a", prompt, 1)
    loop.step()
    loop.step()
    loop.schedule()
    loop.abort("a")
    loop.commit(loop.plans[-1], {})
    assert loop.matched(prompt) == 16
    again = loop.submit("b", prompt, 1)
    loop.run()
    assert again.matched_len == 16


def test_output_of_an_aborted_request_is_not_published():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), 20)
    for _ in range(10):
        loop.step()
    loop.abort("a")
    assert loop.matched([*ids(0, 4), *request.output]) == 4


def test_before_its_copies_ran():
    loop = Loop(page_size=4, partial_reuse=True)
    loop.warm(ids(0, 8))
    loop.submit("a", [*ids(0, 6), 90, 91], 1)
    plan = loop.schedule()
    assert plan.copies
    loop.abort("a")
    loop.commit(plan, {})
    loop.assert_nothing_is_held()
    assert loop.cache.evict(100) == 2


def test_the_next_in_line_takes_the_place_at_once():
    loop = Loop(max_running=1)
    loop.submit("a", ids(0, 3), 50)
    loop.submit("b", ids(50, 3), 1)
    loop.step()
    assert loop.scheduler.num_waiting == 1
    loop.abort("a")
    assert shape(loop.step()) == [("b", 0, 3, 1)]
