import threading

import numpy as np
import pytest

from radixcache import RadixCacheError, check
from scheduler import PlanError, RequestState, Scheduler, SchedulerConfig
from scheduler.errors import InvalidRequest, ReentrantCall, WrongThread
from tests.unit.scheduler.loop import Loop, ids, shape


def prefilling(num_requests: int = 3) -> Loop:
    loop = Loop(num_pages=100)
    for number in range(num_requests):
        loop.submit(f"r{number}", ids(100 * number, 9), 4)
    return loop


def state_of(loop: Loop) -> list[object]:
    requests = [row.request for row in loop.plans[-1].rows]
    return [loop.cache.stats, loop.cache.pages] + [
        (
            request.state,
            list(request.output),
            request.sequence.computed_len,
            request.sequence.num_tokens,
            request.prefill_tokens,
            request.first_token_at,
        )
        for request in requests
    ]


BAD_OUTPUTS = {
    "one is missing": {"r0": [1], "r1": [1]},
    "none at all": {},
    "one is empty": {"r0": [1], "r1": [1], "r2": []},
    "too many": {"r0": [1], "r1": [1], "r2": [1, 2]},
    "a stranger": {"r0": [1], "r1": [1], "r2": [1], "r3": [1]},
    "a negative token": {"r0": [1], "r1": [1], "r2": [-1]},
    "a token above int32": {"r0": [1], "r1": [2**31], "r2": [1]},
    "no integer": {"r0": [1], "r1": [1], "r2": [1.5]},
    "a text": {"r0": [1], "r1": [1], "r2": "x"},
}


@pytest.mark.parametrize("outputs", BAD_OUTPUTS.values(), ids=BAD_OUTPUTS)
def test_outputs_that_do_not_fit_change_nothing_and_the_plan_stays_open(outputs):
    loop = prefilling()
    plan = loop.schedule()
    before = state_of(loop)
    with pytest.raises(PlanError) as caught:
        loop.commit(plan, outputs)
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, RuntimeError)
    check(loop.cache)
    assert state_of(loop) == before
    loop.commit(plan)
    loop.run()
    loop.assert_nothing_is_held()


def test_the_message_names_request_plan_and_value():
    loop = prefilling()
    plan = loop.schedule()
    with pytest.raises(PlanError, match=r"'r2' in plan 0.*token ids lie in .*got -7 at position 0"):
        loop.commit(plan, {"r0": [1], "r1": [1], "r2": [-7]})
    with pytest.raises(PlanError, match="'r2' in plan 0 generates 1 to 1 tokens, got 3"):
        loop.commit(plan, {"r0": [1], "r1": [1], "r2": [1, 2, 3]})
    with pytest.raises(PlanError, match="plan 0 has no row for request 'x'"):
        loop.commit(plan, {"r0": [1], "r1": [1], "r2": [1], "x": [1]})


def test_tokens_for_a_row_that_does_not_generate_are_refused():
    loop = Loop(prefill_chunk_tokens=4)
    loop.submit("a", ids(0, 9), 1)
    plan = loop.schedule()
    with pytest.raises(PlanError, match="generates 0 to 0 tokens, got 1"):
        loop.commit(plan, {"a": [1]})
    loop.commit(plan, {"a": []})


@pytest.mark.parametrize("tokens", [[5], (5,), range(5, 6), np.array([5])])
def test_outputs_come_as_any_sequence_of_integers(tokens):
    loop = Loop()
    request = loop.submit("a", [1, 2], 1)
    loop.commit(loop.schedule(), {"a": tokens})
    assert request.output == [5]
    assert type(request.output[0]) is int


def test_finished_requests_are_returned_in_row_order():
    loop = Loop()
    requests = [loop.submit(f"r{n}", ids(10 * n, 3), 1 + n % 2) for n in range(5)]
    assert loop.commit(loop.schedule()) == requests[0::2]
    assert loop.commit(loop.schedule()) == requests[1::2]


def test_no_second_plan_while_one_is_open():
    loop = prefilling()
    plan = loop.schedule()
    with pytest.raises(PlanError, match="plan 0 is neither committed nor discarded"):
        loop.schedule()
    loop.commit(plan)
    assert loop.schedule().number == 1


@pytest.mark.parametrize("verb", ["commit", "discard"])
def test_a_plan_is_settled_once(verb):
    loop = prefilling()
    plan = loop.schedule()
    loop.commit(plan)
    with pytest.raises(PlanError, match="plan 0 is not the open one, which is none"):
        loop.commit(plan, {}) if verb == "commit" else loop.discard(plan)
    later = loop.schedule()
    with pytest.raises(PlanError, match="plan 0 is not the open one, which is plan 1"):
        loop.commit(plan, {}) if verb == "commit" else loop.discard(plan)
    loop.commit(later)


def test_a_plan_of_another_scheduler_is_refused():
    mine, other = prefilling(), prefilling()
    plan, stranger = mine.schedule(), other.schedule()
    assert plan == plan
    with pytest.raises(PlanError):
        mine.commit(stranger)
    mine.commit(plan)


def test_an_empty_plan_is_not_committed():
    loop = Loop()
    with pytest.raises(PlanError):
        loop.commit(loop.schedule(), {})


def test_several_tokens_a_row_are_taken_in_at_once():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), 8)
    loop.step()
    plan = loop.schedule(horizon=lambda rows: 5)
    assert shape(plan) == [("a", 4, 1, 5)]
    loop.commit(plan, {"a": [70, 71, 72, 73, 74]})
    assert request.output[1:] == [70, 71, 72, 73, 74]
    assert (request.sequence.computed_len, request.sequence.num_tokens) == (9, 10)


@pytest.mark.parametrize("num_tokens", [1, 2, 3, 4])
def test_fewer_tokens_than_planned_are_taken_in_and_the_rest_comes_later(num_tokens):
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), 8)
    loop.step()
    plan = loop.schedule(horizon=lambda rows: 4)
    loop.commit(plan, {"a": ids(70, num_tokens)})
    assert len(request.output) == 1 + num_tokens
    assert shape(loop.schedule()) == [("a", 4 + num_tokens, 1, 1)]
    loop.commit(loop.plans[-1])
    loop.run()
    assert len(request.output) == 8
    loop.assert_nothing_is_held()


def test_rows_may_bring_different_numbers_of_tokens():
    loop = Loop()
    first, second = loop.submit("a", ids(0, 4), 9), loop.submit("b", ids(50, 6), 9)
    loop.step()
    plan = loop.schedule(horizon=lambda rows: 4)
    loop.commit(plan, {"a": [1], "b": [2, 3, 4, 5]})
    assert (len(first.output), len(second.output)) == (2, 5)
    loop.run()
    assert (len(first.output), len(second.output)) == (9, 9)


def test_a_stop_token_ends_a_request_between_two_plans():
    loop = Loop(page_size=4)
    request = loop.submit("a", ids(0, 4), None)
    for _ in range(6):
        loop.step()
    loop.scheduler.finish("a", 99)
    assert (request.state, request.finished_at, len(request.output)) == (RequestState.FINISHED, 99, 6)
    assert loop.matched([*ids(0, 4), *request.output]) == 8
    assert loop.scheduler.is_idle
    loop.assert_nothing_is_held()


@pytest.mark.parametrize("when", ["unknown", "waiting", "planned"])
def test_finish_is_refused_where_it_makes_no_sense(when):
    loop = Loop()
    request = loop.submit("a", ids(0, 4), None)
    plan = loop.schedule() if when == "planned" else None
    with pytest.raises(InvalidRequest, match="does not run between two plans"):
        loop.scheduler.finish("b" if when == "unknown" else "a", 1)
    assert request.state is (RequestState.RUNNING if plan else RequestState.WAITING)


VERBS = {
    "submit": lambda loop: loop.submit("b", [1], 1),
    "abort": lambda loop: loop.scheduler.abort("a", 1),
    "schedule": lambda loop: loop.scheduler.schedule(1),
    "commit": lambda loop: loop.scheduler.commit(loop.plans[-1], {}, 1),
    "discard": lambda loop: loop.scheduler.discard(loop.plans[-1]),
    "finish": lambda loop: loop.scheduler.finish("a", 1),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_refused_from_a_second_thread_and_changes_nothing(verb):
    loop = Loop()
    loop.submit("a", [1, 2], 2)
    plan = loop.schedule()
    caught: list[BaseException] = []

    def use() -> None:
        try:
            VERBS[verb](loop)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    (error,) = caught
    assert isinstance(error, WrongThread)
    assert isinstance(error, RuntimeError)
    loop.commit(plan)
    loop.run()


def test_the_thread_that_uses_a_scheduler_first_owns_it_not_the_one_that_made_it():
    loop = Loop()
    scheduler = Scheduler(loop.cache, SchedulerConfig())
    thread = threading.Thread(target=scheduler.schedule, args=(0,))
    thread.start()
    thread.join()
    with pytest.raises(WrongThread):
        scheduler.schedule(0)


@pytest.mark.parametrize("verb", ["abort", "schedule", "commit", "discard", "finish"])
@pytest.mark.parametrize("moment", ["submitted", "ended"])
def test_an_observer_that_calls_the_scheduler_is_refused_and_changes_nothing(verb, moment):
    loop, caught = Loop(), []

    class Meddler:
        def submitted(self, request, now):
            self.meddle("submitted")

        def ended(self, request, now):
            self.meddle("ended")

        def meddle(self, at):
            if at == moment and loop.plans:
                with pytest.raises(ReentrantCall, match="may read while it is told"):
                    VERBS[verb](loop)
                caught.append(at)

    loop.scheduler.subscribe(Meddler())
    loop.submit("a", [1, 2], 2)
    loop.step()
    loop.submit("b", [3], 1)
    loop.run()
    assert caught
    loop.assert_nothing_is_held()


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"r0": [1], "r1": [1], "r2": 7}, "'r2' in plan 0 generates a sequence of token ids, got 7"),
        ({"r0": [1], "r1": [1], "r2": None}, "'r2' in plan 0 generates a sequence of token ids, got None"),
        ([[1], [1], [1]], "outputs are a mapping of request ids to token ids, got list"),
        ({"r0": [1], "r1": [1], "r2": [1], 3: [1]}, "no row for request 3"),
        ({"r0": [1], "r1": [1], "r2": [1], 3: [1], "x": [1]}, "no row for request 3"),
    ],
)
def test_outputs_of_another_form_are_refused_and_change_nothing(outputs, message):
    loop = prefilling()
    plan = loop.schedule()
    before = state_of(loop)
    with pytest.raises(PlanError, match=message):
        loop.scheduler.commit(plan, outputs, 9)
    assert state_of(loop) == before
    loop.commit(plan)
    loop.run()
