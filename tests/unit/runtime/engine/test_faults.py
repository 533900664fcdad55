"""What others do wrong around an engine: executors, tokenizers, clocks, callers in the middle of a step."""

import pytest

from radixcache import check
from radixcache.errors import InvalidArgument, InvalidArgumentType
from runtime.engine import FinishReason
from runtime.executor import StepOutput
from scheduler import PlanError
from scheduler.errors import Interrupted
from tests.unit.runtime.engine.serving import (
    Letters,
    Ticks,
    assert_balanced,
    expected,
    meddle,
    never,
    run,
    tokens,
    toy_engine,
    wanted,
)

PROMPTS = [tokens(0, 9), tokens(50, 3), tokens(0, 12)]


def spoil(made: StepOutput, how: str, name: str) -> object:
    """What an executor brought, but wrong for one request."""
    if how == "nothing":
        return None
    if how == "no mapping":
        return StepOutput([3], 0)
    if how == "a stranger's tokens":
        return StepOutput({**made.tokens, "stranger": [1]}, 0)
    bad = {"too many": [1, 2], "none": [], "negative": [-1], "no list": 7, "a text": "x"}
    return StepOutput({**made.tokens, name: bad[how]}, 0)


def spoil_last(made: StepOutput) -> StepOutput:
    """What an executor brought, with a token that no letter stands for."""
    return StepOutput({name: [100] for name in made.tokens}, 0)


@pytest.mark.parametrize("how", ["too many", "none", "negative", "no list", "a text"])
def test_what_an_executor_makes_of_one_row_fails_that_row(how):
    def wrong(plan, made):
        bad = [row.request for row in plan.rows if row.max_tokens and len(row.request.prompt) == 3]
        return spoil(made, how, bad[0].request_id) if bad and len(bad[0].output) == 2 else made

    engine = meddle(toy_engine(), wrong)
    found = engine.generate(PROMPTS, wanted(6))
    reasons = [each.finish_reason for each in found]
    assert reasons == [FinishReason.LENGTH, FinishReason.ERROR, FinishReason.LENGTH]
    assert isinstance(found[1].error, PlanError)
    assert found[1].token_ids == expected(PROMPTS[1], 2)
    for place in (0, 2):
        assert found[place].token_ids == expected(PROMPTS[place], 6)
        assert found[place].error is None
    assert_balanced(engine)


@pytest.mark.parametrize("how", ["nothing", "no mapping", "a stranger's tokens"])
def test_an_executor_that_always_brings_garbage_fails_everybody_and_nothing_hangs(how):
    engine = meddle(toy_engine(), lambda plan, made: spoil(made, how, ""))
    found = engine.generate(PROMPTS, wanted(6))
    assert {each.finish_reason for each in found} == {FinishReason.ERROR}
    assert_balanced(engine)
    assert engine.cache.pages.free == engine.cache.pages.total


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("bears_the_name_again", [False, True])
def test_a_request_that_is_aborted_while_its_step_runs(fails, bears_the_name_again):
    """Also where another takes its name at once: that one gets none of its tokens, nor its failure."""
    engine = toy_engine(prefill_chunk_tokens=4)

    def aborting(plan, made):
        named = [row.request for row in plan.rows if row.request.request_id == "a"]
        if named and len(named[0].output) == 2 and list(named[0].prompt) == PROMPTS[0]:
            assert engine.abort("a")
            if bears_the_name_again:
                engine.add_request(PROMPTS[2], wanted(5), request_id="a")
            if fails:
                raise RuntimeError("the step is lost")
        return made

    meddle(engine, aborting)
    engine.add_request(PROMPTS[0], wanted(6), request_id="a")
    engine.add_request(PROMPTS[1], wanted(6), request_id="b")
    ends = {"a": [], "b": []}
    while not engine.is_idle:
        for chunk in engine.step():
            if chunk.completion is not None:
                ends[chunk.request_id].append(chunk.completion)
    first, *others = ends["a"]
    assert first.finish_reason is FinishReason.ABORT
    assert first.token_ids == expected(PROMPTS[0], 2)
    assert [each.token_ids for each in others] == [expected(PROMPTS[2], 5)] * bears_the_name_again
    assert [each.token_ids for each in ends["b"]] == [expected(PROMPTS[1], 6)]
    assert_balanced(engine)


@pytest.mark.parametrize("way", ["generate", "stream", "step"])
def test_an_interrupt_within_the_scheduler_comes_through_and_the_engine_says_so_from_then_on(way):
    def interrupts(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    engine = toy_engine()
    engine.add_request(PROMPTS[1], wanted(3))
    engine.step()
    engine.cache.subscribe(type("Interrupts", (), dict.fromkeys(["published", "evicted"], interrupts))())
    ways = {
        "generate": lambda: engine.generate(PROMPTS, wanted(4)),
        "stream": lambda: list(engine.stream(PROMPTS[0], wanted(4))),
        "step": lambda: (engine.add_request(PROMPTS[0]), engine.step()),
    }
    with pytest.raises(KeyboardInterrupt):
        ways[way]()
    with pytest.raises(Interrupted, match="commit was interrupted by KeyboardInterrupt"):
        engine.step()


@pytest.mark.parametrize("read", range(1, 40))
def test_an_interrupt_while_the_clock_is_read_leaves_no_plan_open(read):
    class Interrupts(Ticks):
        left = 0

        def now_ps(self):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return super().now_ps()

    clock = Interrupts()
    engine = toy_engine(clock=clock, prefill_chunk_tokens=5)
    names = [engine.add_request(prompt, wanted(5)) for prompt in PROMPTS]
    clock.left = read
    chunks = []
    while not engine.is_idle:
        try:
            chunks += engine.step()
        except KeyboardInterrupt:
            assert clock.left == 0
    found = run(engine, chunks)
    assert [found[name].token_ids for name in names] == [expected(prompt, 5) for prompt in PROMPTS]
    assert_balanced(engine)


def test_a_request_that_others_end_through_the_scheduler_gets_its_completion():
    engine = toy_engine()
    name = engine.add_request(PROMPTS[0], wanted(50))
    engine.step()
    engine.scheduler.abort(name, 1.0)
    assert not engine.is_idle
    (chunk,) = engine.step()
    assert chunk.completion.finish_reason is FinishReason.ABORT
    assert_balanced(engine)


def test_nobody_waits_for_ever_for_a_request_that_others_ended():
    engine = toy_engine()
    meddle(engine, lambda plan, made: (engine.scheduler.abort("request-0", 1.0), made)[1])
    (found,) = engine.generate([PROMPTS[0]], wanted(5))
    assert found.finish_reason is FinishReason.ABORT
    assert_balanced(engine)


def test_who_expired_gets_a_completion_even_where_planning_breaks_off():
    class Breaks:
        def submitted(self, request, now):
            pass

        def ended(self, request, now):
            raise RuntimeError("observer")

    engine = toy_engine(max_running=1)
    engine.add_request(PROMPTS[0], wanted(3))
    chunks = engine.step()
    late = engine.add_request(PROMPTS[1], wanted(3), deadline_s=0.0)
    breaks = Breaks()
    engine.scheduler.subscribe(breaks)
    with pytest.raises(RuntimeError, match="observer"):
        engine.step()
    engine.scheduler.unsubscribe(breaks)
    assert run(engine, chunks)[late].finish_reason is FinishReason.DEADLINE
    assert_balanced(engine)


@pytest.mark.parametrize("prefill_chunk_tokens", [None, 2])
def test_a_leader_that_fails_leaves_its_followers_to_another(prefill_chunk_tokens):
    """Three share a prompt, two wait for the first, whose step fails for good halfway."""
    prompt = tokens(0, 13)

    def fails(call, plan):
        return any(row.request.request_id == "leader" and row.start + row.extend_len > 8 for row in plan.rows)

    engine = toy_engine(fails=fails, prefill_chunk_tokens=prefill_chunk_tokens)
    for name in ("leader", "second", "third"):
        engine.add_request(prompt, wanted(4), request_id=name)
    chunks = engine.step()
    assert engine.scheduler.num_waiting == 2
    found = run(engine, chunks)
    assert found["leader"].finish_reason is FinishReason.ERROR
    assert found["second"].token_ids == found["third"].token_ids == expected(prompt, 4)
    assert found["third"].cached_tokens == 12
    assert found["leader"].token_ids == []
    assert_balanced(engine)


def test_a_failure_within_a_prompt_leaves_what_was_computed_before_and_no_more():
    prompt = tokens(0, 13)

    def fails(call, plan):
        return any(row.start >= 6 for row in plan.rows)

    engine = toy_engine(fails=fails, prefill_chunk_tokens=3)
    (failed,) = engine.generate([prompt], wanted(4))
    assert (failed.finish_reason, failed.computed_tokens) == (FinishReason.ERROR, 6)
    assert engine.cache.peek(prompt, engine._namespace(None)).matched_len == 4
    assert_balanced(engine)
    engine._executor._fails = lambda call, plan: False
    (found,) = engine.generate([prompt], wanted(4))
    assert (found.cached_tokens, found.token_ids) == (4, expected(prompt, 4))


@pytest.mark.parametrize("end", ["error", "abort", "length", "stop token", "stop text"])
def test_what_a_request_generated_is_left_only_where_it_finished(end):
    """A next turn finds the whole answer of a request that finished, by its limit or by a stop."""
    prompt, count = tokens(0, 9), 12 if end == "length" else 40
    output = expected(prompt, 12)
    fails = (lambda call, plan: plan.rows[0].start >= 19) if end == "error" else never
    params = {
        "stop token": {"stop_token_ids": (100,)},
        "stop text": {"stop": ("".join("abcdef"[token] for token in output),)},
    }
    engine = toy_engine(fails=fails, text=Letters())
    if end == "stop token":
        meddle(engine, lambda plan, made: spoil_last(made) if plan.rows[0].start == 19 else made)
    name = engine.add_request(prompt, wanted(count, **params.get(end, {})))
    chunks = []
    while not engine.is_idle:
        chunks += engine.step()
        if end == "abort" and len(chunks) == 12:
            engine.abort(name)
    known = [*prompt, *run(engine, chunks)[name].token_ids]
    assert len(known) in (20, 21)
    matched = engine.cache.peek([*known, 0], engine._namespace(None)).matched_len
    assert matched == (8 if end in ("error", "abort") else 20)
    assert_balanced(engine)


def test_a_request_whose_text_cannot_be_made_fails_alone():
    prompts = [tokens(0, 9), tokens(3, 4), tokens(90, 5)]
    outputs = ["".join("abcdef"[token] for token in expected(prompt, 8)) for prompt in prompts]
    bad = outputs[1][3]
    engine = toy_engine(text=Letters(breaks_at=bad))
    found = engine.generate(prompts, wanted(8))
    for completion, output in zip(found, outputs, strict=True):
        at = output.find(bad)
        assert completion.text == (output if at < 0 else output[:at])
        assert (completion.finish_reason is FinishReason.ERROR) == (at >= 0)
        assert isinstance(completion.error, UnicodeError) == (at >= 0)
        assert len(completion.token_ids) == (8 if at < 0 else at + 1)
    assert_balanced(engine)


@pytest.mark.parametrize("ends_by", ["length", "stop token", "abort"])
def test_a_tokenizer_that_breaks_at_the_very_end(ends_by):
    stops = (expected(PROMPTS[0], 4)[-1],) if ends_by == "stop token" else ()
    engine = toy_engine(text=Letters(rest="breaks"))
    name = engine.add_request(PROMPTS[0], wanted(4, stop_token_ids=stops))
    chunks = []
    while not engine.is_idle:
        chunks += engine.step()
        if ends_by == "abort" and len(chunks) == 2:
            engine.abort(name)
    completion = run(engine, chunks)[name]
    assert completion.finish_reason is FinishReason.ERROR
    assert isinstance(completion.error, UnicodeError)
    assert_balanced(engine)


def test_text_that_was_held_back_comes_with_the_end_whatever_that_is():
    """The beginning of a stop text is text once the output ends otherwise."""
    output = "".join("abcdef"[token] for token in expected(PROMPTS[0], 4))
    stop = (output[2:4] + "x",)
    engine = toy_engine(text=Letters(rest="!"))
    cut = engine.add_request(PROMPTS[0], wanted(4, stop=stop))
    aborted = engine.add_request(PROMPTS[0], wanted(50, stop=stop))
    texts = {cut: "", aborted: ""}
    ends = {}
    while not engine.is_idle:
        for chunk in engine.step():
            texts[chunk.request_id] += chunk.text
            ends[chunk.request_id] = chunk.completion
            if chunk.request_id == aborted and chunk.completion is None and len(texts[aborted]) == 2:
                engine.abort(aborted)
    assert ends[cut].text == texts[cut] == output + "!"
    assert ends[aborted].text == texts[aborted]
    assert len(ends[aborted].text) == len(ends[aborted].token_ids) + 1
    assert ends[aborted].finish_reason is FinishReason.ABORT


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_stop_at_the_last_token_that_fits_is_a_stop(place):
    output = expected(PROMPTS[0], 20)
    count = next(n for n in range(place + 1, 20) if output[n] not in output[:n]) + 1 if place else 1
    by_token = toy_engine().generate([PROMPTS[0]], wanted(count, stop_token_ids=(output[count - 1],)))[0]
    text = "".join("abcdef"[token] for token in output[:count])
    by_text = toy_engine(text=Letters()).generate([PROMPTS[0]], wanted(count, stop=(text,)))[0]
    assert (by_token.finish_reason, by_text.finish_reason) == ("stop_token", "stop_text")
    assert by_token.token_ids == by_text.token_ids == output[:count]
    assert by_text.text == ""


def test_a_stop_text_over_tokens_and_steps_is_never_shown():
    output = "".join("abcdef"[token] for token in expected(PROMPTS[0], 20))
    stop = output[4:8]
    engine = toy_engine(text=Letters())
    chunks = list(engine.stream(PROMPTS[0], wanted(20, stop=(stop,))))
    assert "".join(chunk.text for chunk in chunks) == output[: output.index(stop)]
    assert chunks[-1].completion.finish_reason is FinishReason.STOP_TEXT
    assert chunks[-1].completion.text == output[: output.index(stop)]
    assert_balanced(engine)


class Clock:
    def __init__(self, times):
        self._times = iter(times)

    def now_ps(self):
        return next(self._times)


@pytest.mark.parametrize(
    "times", [[5] * 1000, [10**12 - 10**9 * step for step in range(1000)]], ids=["stands", "goes back"]
)
def test_a_clock_that_stands_still_or_goes_back(times):
    engine = toy_engine(clock=Clock(times))
    found = engine.generate(PROMPTS, wanted(5))
    assert [each.token_ids for each in found] == [expected(prompt, 5) for prompt in PROMPTS]
    assert {(each.queue_s, each.ttft_s, each.e2e_s) for each in found} == {(0.0, 0.0, 0.0)}
    assert_balanced(engine)


@pytest.mark.parametrize("call", range(1, 12))
def test_an_interrupt_at_any_call_loses_nothing(call):
    """In a row-by-row run as well: the calls are those of a step that failed as a whole."""
    calls_left = [-1]

    def fails(number, plan):
        calls_left[0] -= 1
        if calls_left[0] == 0:
            raise KeyboardInterrupt
        return len(plan.rows) > 1

    engine = toy_engine(fails=fails, partial_reuse=True, prefill_chunk_tokens=5)
    engine.generate([tokens(0, 8)], wanted(1))
    for name, prompt in zip("abc", PROMPTS, strict=True):
        engine.add_request(prompt, wanted(5), request_id=name)
    calls_left[0] = call
    chunks = []
    while not engine.is_idle:
        try:
            chunks += engine.step()
        except KeyboardInterrupt:
            assert calls_left == [0]
        check(engine.cache)
    assert calls_left[0] < 0
    found = run(engine, chunks)
    for name, prompt in zip("abc", PROMPTS, strict=True):
        assert found[name].token_ids == expected(prompt, 5)
    assert_balanced(engine)


@pytest.mark.parametrize("step", range(9))
@pytest.mark.parametrize("stops", [False, True])
def test_an_interrupt_after_a_step_was_taken_in_loses_no_token_and_no_stop(step, stops):
    output = "".join("abcdef"[token] for token in expected(PROMPTS[0], 8))
    engine = toy_engine(text=Letters())
    commit, left = engine.scheduler.commit, [step + 1]

    def interrupted(*arguments):
        commit(*arguments)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    engine.scheduler.commit = interrupted
    names = [engine.add_request(PROMPTS[0], wanted(8, stop=(output[3:6],) if stops else ()))]
    names.append(engine.add_request(PROMPTS[1], wanted(9)))
    chunks = []
    while not engine.is_idle:
        try:
            chunks += engine.step()
        except KeyboardInterrupt:
            assert left == [0]
    found = run(engine, chunks)
    end = output.find(output[3:6])
    assert found[names[0]].text == (output[:end] if stops else output)
    assert found[names[0]].finish_reason == ("stop_text" if stops else "length")
    assert found[names[1]].token_ids == expected(PROMPTS[1], 9)
    assert left[0] <= 0
    assert_balanced(engine)


@pytest.mark.parametrize(
    ("deadline", "error"), [("soon", InvalidArgumentType), (float("nan"), InvalidArgument)]
)
def test_a_deadline_that_is_no_time_is_refused(deadline, error):
    engine = toy_engine()
    with pytest.raises(error, match="deadline_s"):
        engine.add_request(PROMPTS[0], wanted(1), deadline_s=deadline)
    assert_balanced(engine)
