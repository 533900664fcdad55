"""Rows that fail while others go on: what an executor says of them, what running them one by one finds."""

import pytest

from runtime.engine import FinishReason
from runtime.executor import StepOutput
from scheduler import PlanError
from tests.unit.runtime.engine.serving import (
    assert_balanced,
    expected,
    meddle,
    run,
    tokens,
    toy_engine,
    wanted,
)

PROMPTS = [tokens(0, 9), tokens(50, 3), tokens(0, 12)]


@pytest.mark.parametrize("bears_the_name_again", [False, True])
def test_an_executor_that_says_which_row_failed_runs_nothing_again(bears_the_name_again):
    """Not even where the request is gone by then, and another bears its name: that one goes on."""
    engine = toy_engine()
    executor, error = engine._executor, ArithmeticError("no numbers")

    def failing(plan, made):
        bad = [row.request for row in plan.rows if list(row.request.prompt) == PROMPTS[0]]
        if not bad or len(bad[0].output) != 2:
            return made
        if bears_the_name_again:
            engine.abort("a")
            engine.add_request(PROMPTS[2], wanted(5), request_id="a")
        rest = {name: tokens for name, tokens in made.tokens.items() if name != "a"}
        return StepOutput(rest, 0, {"a": error})

    meddle(engine, failing)
    engine.add_request(PROMPTS[0], wanted(6), request_id="a")
    engine.add_request(PROMPTS[1], wanted(6), request_id="b")
    num_steps, ends = 0, []
    while not engine.is_idle:
        num_steps += not engine.scheduler.is_idle
        ends += [chunk.completion for chunk in engine.step() if chunk.completion is not None]
    assert executor.num_calls == num_steps
    first = next(end for end in ends if end.token_ids == expected(PROMPTS[0], 2))
    assert first.error is (None if bears_the_name_again else error)
    assert expected(PROMPTS[1], 6) in [end.token_ids for end in ends]
    assert (expected(PROMPTS[2], 5) in [end.token_ids for end in ends]) == bears_the_name_again
    assert_balanced(engine)


@pytest.mark.parametrize("how", ["a stranger failed", "it brings tokens too", "others bring none"])
def test_an_executor_that_contradicts_itself_about_who_failed_is_run_again_row_by_row(how):
    engine = toy_engine()

    def failing(plan, made):
        if len(plan.rows) < 3:
            return made
        name = plan.rows[1].request.request_id
        rest = {other: tokens for other, tokens in made.tokens.items() if other != name}
        says = {
            "a stranger failed": (rest, {name: ValueError(), "stranger": ValueError()}),
            "it brings tokens too": (made.tokens, {name: ValueError()}),
            "others bring none": ({}, {name: ValueError()}),
        }
        tokens_of, errors = says[how]
        return StepOutput(tokens_of, 0, errors)

    found = meddle(engine, failing).generate(PROMPTS, wanted(4))
    assert [each.token_ids for each in found] == [expected(prompt, 4) for prompt in PROMPTS]
    assert_balanced(engine)


def test_a_row_that_is_run_alone_may_be_said_to_have_failed_too():
    error = ArithmeticError("no numbers")

    def failing(plan, made):
        if len(plan.rows) == 3:
            raise RuntimeError("together")
        names = [row.request.request_id for row in plan.rows if list(row.request.prompt) == PROMPTS[1]]
        return StepOutput({}, 0, {names[0]: error}) if names else made

    found = meddle(toy_engine(), failing).generate(PROMPTS, wanted(4))
    assert [each.error for each in found] == [None, error, None]
    assert [each.token_ids for each in found] == [expected(PROMPTS[0], 4), [], expected(PROMPTS[2], 4)]


def test_an_executor_that_only_ever_speaks_of_strangers_fails_who_it_is_asked_for():
    engine = meddle(toy_engine(), lambda plan, made: made._replace(errors={"stranger": ValueError()}))
    (found,) = engine.generate(PROMPTS[:1], wanted(4))
    assert isinstance(found.error, PlanError)
    assert "no row for request 'stranger', but it failed" in str(found.error)
    assert_balanced(engine)


def test_a_row_is_not_run_again_for_somebody_who_left_meanwhile():
    engine, alone = toy_engine(), []

    def fails(plan, made):
        if len(plan.rows) > 1:
            engine.abort("b")
            raise RuntimeError("together")
        alone.append(plan.rows[0].request.request_id)
        return made

    meddle(engine, fails)
    engine.add_request(PROMPTS[0], wanted(1), request_id="a")
    engine.add_request(PROMPTS[1], wanted(1), request_id="b")
    found = run(engine)
    assert alone == ["a"]
    assert found["a"].token_ids == expected(PROMPTS[0], 1)
    assert found["b"].finish_reason is FinishReason.ABORT
