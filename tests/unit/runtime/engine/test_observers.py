"""Observers of an engine's scheduler or cache that raise: nobody goes on unnoticed or too far."""

import pytest

from runtime.engine import FinishReason
from scheduler import RequestState
from tests.unit.runtime.engine.serving import assert_balanced, expected, run, tokens, toy_engine, wanted

PROMPTS = [tokens(0, 9), tokens(50, 3), tokens(70, 12)]


class Raises:
    """An observer that raises whenever it is told of one of these things."""

    def __init__(self, *things: str) -> None:
        self.things = things

    def _told(self, thing: str) -> None:
        if thing in self.things:
            raise ZeroDivisionError(thing)

    def submitted(self, request, now):
        self._told("submitted")

    def ended(self, request, now):
        self._told("ended")

    def published(self, namespace, parent_page, new_pages, tokens, depth):
        self._told("published")

    def evicted(self, namespace, pages, surviving_parent_page, depth):
        self._told("evicted")

    def cleared(self, namespace, *, everything):
        self._told("cleared")


def watched(*things: str, **settings: object):
    engine, observer = toy_engine(**settings), Raises(*things)
    engine.scheduler.subscribe(observer)
    engine.cache.subscribe(observer)
    return engine, observer


def finished(engine, observer) -> dict:
    """Everybody's completion; what the observer raises is passed over."""
    chunks = []
    for _ in range(100):
        try:
            chunks += engine.step()
        except ZeroDivisionError:
            continue
        if engine.is_idle:
            observer.things = ()
            assert_balanced(engine)
            return run(engine, chunks)
    raise AssertionError("not idle after 100 steps")


@pytest.mark.parametrize("how", ["add_request", "generate", "stream"])
@pytest.mark.parametrize("things", [["submitted"], ["submitted", "ended"]])
def test_a_request_whose_submission_raises_is_not_served(how, things):
    engine, observer = watched(*things)
    calls = {
        "add_request": lambda: engine.add_request(PROMPTS[0], wanted(3)),
        "generate": lambda: engine.generate(PROMPTS, wanted(3)),
        "stream": lambda: next(engine.stream(PROMPTS[0], wanted(3))),
    }
    with pytest.raises(ZeroDivisionError, match="submitted"):
        calls[how]()
    observer.things = ()
    assert_balanced(engine)
    assert engine.generate(PROMPTS[:1], wanted(3))[0].token_ids == expected(PROMPTS[0], 3)


def test_all_that_were_awaited_are_given_up_although_giving_up_raises():
    engine, observer = watched("published", "ended")
    with pytest.raises(ZeroDivisionError):
        engine.generate(PROMPTS, wanted(9))
    assert engine.scheduler.is_idle
    observer.things = ()
    assert_balanced(engine)


@pytest.mark.parametrize("things", [["published"], ["ended"], ["published", "ended"]])
def test_a_stop_token_ends_the_output_also_in_a_step_in_which_an_observer_raised(things):
    """Whether it was raised by the commit, or as another row's request ended."""
    engine, observer = watched(*things, page_size=1)
    for name, prompt in zip("abc", PROMPTS, strict=True):
        stop = expected(prompt, 1)[0]
        engine.add_request(prompt, wanted(5, stop_token_ids=(stop,)), request_id=name)
    found = finished(engine, observer)
    for name, prompt in zip("abc", PROMPTS, strict=True):
        assert found[name].finish_reason is FinishReason.STOP_TOKEN
        assert found[name].token_ids == expected(prompt, 1)


def test_an_abort_that_raises_has_its_completion_at_once():
    engine, observer = watched("ended")
    name = engine.add_request(PROMPTS[0], wanted(5))
    live = engine._live[name]
    with pytest.raises(ZeroDivisionError):
        engine.abort(name)
    assert live.request.state is RequestState.ABORTED
    assert live.completion.finish_reason is FinishReason.ABORT
    observer.things = ()
    assert [chunk.completion for chunk in engine.step()] == [live.completion]
    assert_balanced(engine)
