import random

import pytest

from radixcache import NullPrefixCache, check
from radixcache.errors import InvalidConfig
from runtime.engine import FinishReason, PromptError, SamplingParams
from scheduler import RequestTooLong
from scheduler.errors import InvalidRequest
from tests.fault.scheduler.toy_engine import VOCABULARY, generate
from tests.unit.runtime.engine.serving import toy_engine


def tokens(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def wanted(count: int, **more) -> SamplingParams:
    return SamplingParams(max_new_tokens=count, **more)


def in_engine(namespace=None, epoch: int = 0):
    """The namespace that the engine makes of one."""
    return toy_engine()._namespace(namespace) if epoch == 0 else (f"epoch {epoch}", b"n0:")


def expected(prompt: list[int], count: int) -> list[int]:
    return generate(prompt, count, in_engine())


def assert_balanced(engine) -> None:
    check(engine.cache)
    assert engine.is_idle
    pages = engine.cache.pages
    assert (pages.private, pages.locked) == (0, 0)
    assert not engine._live
    assert not engine._inboxes
    assert not engine._sampler._params


def test_a_batch_is_answered_in_the_order_it_was_given():
    engine, prompts = toy_engine(), [tokens(0, 9), tokens(50, 3), tokens(0, 12)]
    found = engine.generate(prompts, [wanted(5), wanted(1), wanted(8)])
    assert [each.token_ids for each in found] == [
        expected(prompt, count) for prompt, count in zip(prompts, (5, 1, 8), strict=True)
    ]
    assert {each.finish_reason for each in found} == {FinishReason.LENGTH}
    assert_balanced(engine)


def test_a_completion_says_what_was_cached_and_why_the_rest_was_not():
    engine, prompt = toy_engine(), tokens(0, 11)
    (cold,), (warm,) = engine.generate([prompt], wanted(2)), engine.generate([prompt], wanted(2))
    assert (cold.cached_tokens, cold.computed_tokens) == (0, 11)
    assert cold.missed_tokens == {"never_seen": 8, "shorter_than_page": 3}
    assert (warm.cached_tokens, warm.computed_tokens) == (8, 3)
    assert warm.missed_tokens == {"shorter_than_page": 3}
    assert warm.token_ids == cold.token_ids
    assert cold.queue_s is not None
    assert 0 < cold.queue_s < cold.ttft_s < cold.e2e_s


def test_a_stream_gives_every_token_once_and_the_completion_last():
    engine, prompt = toy_engine(), tokens(0, 9)
    chunks = list(engine.stream(prompt, wanted(6)))
    assert [token for chunk in chunks for token in chunk.token_ids] == expected(prompt, 6)
    assert [chunk.completion is None for chunk in chunks] == [True] * 5 + [False]
    assert_balanced(engine)


def test_giving_up_a_stream_aborts_its_request():
    engine = toy_engine()
    stream = engine.stream(tokens(0, 9), wanted(50))
    next(stream)
    stream.close()
    assert_balanced(engine)


def test_chunks_of_others_are_kept_while_somebody_generates():
    engine, prompt = toy_engine(), tokens(40, 6)
    name = engine.add_request(prompt, wanted(3))
    engine.generate([tokens(0, 9)], wanted(9))
    chunks = engine.step()
    assert {chunk.request_id for chunk in chunks} == {name}
    assert [token for chunk in chunks for token in chunk.token_ids] == expected(prompt, 3)
    assert chunks[-1].completion.token_ids == expected(prompt, 3)
    assert engine.step() == []
    assert_balanced(engine)


def test_a_stop_token_ends_an_output_and_is_its_last():
    engine, prompt = toy_engine(), tokens(0, 9)
    output = expected(prompt, 40)
    stop = next(token for token in range(VOCABULARY) if 2 <= output.index(token) < 39)
    (found,) = engine.generate([prompt], wanted(40, stop_token_ids=(stop,)))
    assert found.finish_reason is FinishReason.STOP_TOKEN
    assert found.token_ids == output[: output.index(stop) + 1]
    assert_balanced(engine)


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_the_models_end_tokens_end_an_output_unless_it_wants_to_go_on(ignore_eos):
    prompt = tokens(0, 9)
    output = expected(prompt, 20)
    engine = toy_engine(eos_ids=frozenset({output[3]}))
    (found,) = engine.generate([prompt], wanted(20, ignore_eos=ignore_eos))
    assert found.token_ids == (output if ignore_eos else output[: output.index(output[3]) + 1])


def test_an_aborted_request_says_so_in_its_last_chunk():
    engine = toy_engine()
    name = engine.add_request(tokens(0, 9), wanted(50))
    engine.step()
    assert engine.abort(name)
    assert not engine.abort(name)
    (chunk,) = engine.step()
    assert chunk.completion.finish_reason is FinishReason.ABORT
    assert len(chunk.completion.token_ids) == 1
    assert_balanced(engine)


def test_a_deadline_ends_a_request_that_still_waits():
    engine = toy_engine(max_running=1)
    engine.add_request(tokens(0, 9), wanted(30))
    engine.step()
    late = engine.add_request(tokens(50, 9), wanted(3), deadline_s=0.001)
    ends = {}
    while not engine.is_idle:
        ends |= {chunk.request_id: chunk.completion for chunk in engine.step() if chunk.completion}
    assert ends[late].finish_reason is FinishReason.DEADLINE
    assert ends[late].ttft_s is None
    assert_balanced(engine)


def test_output_ends_where_the_models_context_does():
    engine = toy_engine(max_context=12)
    (found,) = engine.generate([tokens(0, 9)], wanted(50))
    assert len(found.token_ids) == 3
    with pytest.raises(PromptError, match=r"12 tokens, the model's context of 12 leaves no room"):
        engine.add_request(tokens(0, 12))


def test_what_cannot_be_served_is_refused_and_leaves_nothing():
    engine = toy_engine(num_pages=4)
    engine.add_request(tokens(0, 3), wanted(1), request_id="a")
    with pytest.raises(InvalidRequest, match="'a' was submitted before"):
        engine.add_request(tokens(0, 3), wanted(1), request_id="a")
    with pytest.raises(RequestTooLong):
        engine.add_request(tokens(0, 17), wanted(1))
    with pytest.raises(PromptError, match="no tokenizer"):
        engine.add_request("hello")
    with pytest.raises(InvalidConfig, match="2 prompts need as many params, got 1"):
        engine.generate([[1], [2]], [wanted(1)])
    with pytest.raises(PromptError, match="a list of prompts"):
        engine.generate("hello")
    with pytest.raises(RequestTooLong):
        engine.generate([tokens(0, 3), tokens(0, 17)], wanted(1))
    engine.step()
    assert_balanced(engine)


def test_log_probabilities_of_a_prompt_read_nothing_and_leave_it_for_others():
    engine, prompt = toy_engine(), tokens(0, 9)
    engine.generate([prompt], wanted(1))
    (scored,) = engine.generate([prompt], wanted(1, prompt_logprobs=True))
    assert (scored.cache_read, scored.cached_tokens, scored.computed_tokens) == (False, 0, 9)
    assert scored.missed_tokens == {}


def test_other_namespaces_and_other_weights_never_hit():
    engine, prompt = toy_engine(), tokens(0, 9)
    engine.generate([prompt], wanted(1), namespace="tenant a")
    (other,) = engine.generate([prompt], wanted(1), namespace="tenant b")
    assert other.cached_tokens == 0
    assert other.missed_tokens["other_namespace"] == 8
    engine.bump_epoch()
    (after,) = engine.generate([prompt], wanted(1), namespace="tenant a")
    assert after.cached_tokens == 0
    assert_balanced(engine)


def test_who_runs_when_the_weights_change_finishes_and_publishes_nothing_more():
    engine, prompt = toy_engine(), tokens(0, 9)
    name = engine.add_request(prompt, wanted(20))
    engine.step()
    engine.bump_epoch()
    assert engine.cache.pages.evictable == 0
    completion = None
    while completion is None:
        (chunk,) = engine.step()
        completion = chunk.completion
    assert (completion.request_id, len(completion.token_ids)) == (name, 20)
    assert engine.cache.pages.free == engine.cache.pages.total
    assert_balanced(engine)


def test_a_row_that_raises_fails_alone():
    poisoned = tokens(70, 6)

    def fails(call, plan):
        return any(list(row.request.prompt) == poisoned for row in plan.rows)

    engine, prompts = toy_engine(fails=fails), [tokens(0, 9), poisoned, tokens(0, 12)]
    found = engine.generate(prompts, wanted(7))
    assert [each.finish_reason for each in found] == [
        FinishReason.LENGTH,
        FinishReason.ERROR,
        FinishReason.LENGTH,
    ]
    assert str(found[1].error).startswith("call")
    for place in (0, 2):
        assert found[place].token_ids == expected(prompts[place], 7)
    assert_balanced(engine)


@pytest.mark.parametrize("partial_reuse", [False, True])
def test_a_call_that_raises_once_fails_nobody(partial_reuse):
    """Injected at every call in turn: the row-by-row run brings what the whole step would have."""
    prompts = [tokens(0, 9), tokens(0, 7), [*tokens(0, 6), 90, 91], tokens(50, 3)]
    plain = toy_engine(partial_reuse=partial_reuse, prefill_chunk_tokens=4)
    engine_calls = [each.token_ids for each in plain.generate(prompts, wanted(6))]
    for bad in range(plain._executor.num_calls):
        engine = toy_engine(
            partial_reuse=partial_reuse, prefill_chunk_tokens=4, fails=lambda call, plan, bad=bad: call == bad
        )
        found = engine.generate(prompts, wanted(6))
        alone = [each for each in found if each.finish_reason is FinishReason.ERROR]
        assert len(alone) <= 1  # a step of a single row has nobody to be kept apart from
        for each, right in zip(found, engine_calls, strict=True):
            assert each in alone or each.token_ids == right
        assert_balanced(engine)


def test_an_interrupt_gives_the_step_up_and_the_engine_goes_on():
    interrupted = []

    def fails(call, plan):
        if call == 2 and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return False

    engine, prompt = toy_engine(fails=fails), tokens(0, 9)
    engine.add_request(prompt, wanted(6))
    chunks = []
    while not engine.is_idle:
        try:
            chunks += engine.step()
        except KeyboardInterrupt:
            assert interrupted
    assert chunks[-1].completion.token_ids == expected(prompt, 6)
    assert_balanced(engine)


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_aborts_preemptions_and_failures_leave_everything_in_order(seed):
    rng = random.Random(seed)
    page_size = rng.choice([1, 2, 4])
    failing = {"share": 0.0}

    def fails(call, plan):
        return rng.random() < failing["share"]

    engine = toy_engine(
        num_pages=rng.randrange(30, 60) // page_size + 4,
        page_size=page_size,
        fails=fails,
        cache=rng.choice([NullPrefixCache] + 3 * [type(toy_engine().cache)]),
        partial_reuse=False,
        prefill_chunk_tokens=rng.choice([None, 3]),
        max_running=rng.randrange(2, 7),
        policy=rng.choice(["fcfs", "lpm", "hrrn"]),
    )
    prompts: dict[str, list[int]] = {}
    completions = {}
    events = 0
    while events < 100:
        failing["share"] = rng.choice([0.0, 0.0, 0.3])
        action = rng.random()
        if action < 0.35:
            prompt = tokens(100 * rng.randrange(3), rng.randrange(1, 20)) + tokens(rng.randrange(50), 2)
            prompts[engine.add_request(prompt, wanted(rng.randrange(1, 9)))] = prompt
        elif action < 0.45 and engine._live:
            events += engine.abort(rng.choice(sorted(engine._live)))
        elif action < 0.55:
            running = [name for name, live in engine._live.items() if live.request.state == "running"]
            if running:
                engine.scheduler.preempt(rng.choice(sorted(running)))
                events += 1
        else:
            completions |= {chunk.request_id: chunk.completion for chunk in engine.step() if chunk.completion}
            events += failing["share"] > 0
        check(engine.cache)
    failing["share"] = 0.0
    while not engine.is_idle:
        completions |= {chunk.request_id: chunk.completion for chunk in engine.step() if chunk.completion}
        check(engine.cache)
    completions |= {chunk.request_id: chunk.completion for chunk in engine.step() if chunk.completion}
    assert completions.keys() == prompts.keys()
    for name, completion in completions.items():
        assert completion.token_ids == expected(prompts[name], len(completion.token_ids))
    assert_balanced(engine)
