"""Requests as they come, what they are told, and what is left of them."""

import gc
import random

import pytest

from radixcache import CacheConfig, PrefixCache
from radixcache.errors import InvalidConfig, InvalidTokenType
from runtime.engine import Engine, EngineConfig, FinishReason, PromptError, Sampler, SamplingParams
from scheduler import SchedulerConfig
from scheduler.errors import InvalidRequest
from tests.unit.runtime.engine.serving import (
    Letters,
    Ticks,
    assert_balanced,
    expected,
    run,
    tokens,
    toy_engine,
    wanted,
)

PROMPT = tokens(0, 9)


def test_a_made_up_name_is_nobody_elses():
    engine = toy_engine()
    for number in (0, 2, 3):
        engine.add_request(PROMPT, wanted(1), request_id=f"request-{number}")
    names = [engine.add_request(PROMPT, wanted(1)) for _ in range(3)]
    assert names == ["request-1", "request-4", "request-5"]
    assert len(run(engine)) == 6


def test_a_name_may_be_borne_again_at_once():
    """Also within the loop over a stream whose request has just ended."""
    engine = toy_engine()
    for chunk in engine.stream(PROMPT, wanted(3)):
        if chunk.completion is not None:
            engine.add_request(tokens(40, 5), wanted(4), request_id=chunk.request_id)
    (found,) = run(engine).values()
    assert found.finish_reason is FinishReason.LENGTH
    assert found.token_ids == expected(tokens(40, 5), 4)
    assert_balanced(engine)


def test_a_name_is_taken_as_long_as_its_request_lives():
    engine = toy_engine()
    engine.add_request(PROMPT, wanted(2), request_id="a")
    with pytest.raises(InvalidRequest, match="'a' was submitted before"):
        engine.add_request(tokens(40, 5), wanted(2), request_id="a")
    assert run(engine)["a"].token_ids == expected(PROMPT, 2)
    assert_balanced(engine)


def test_generate_and_other_streams_within_a_stream_lose_no_chunk():
    engine, others, found = toy_engine(), [], []
    inner = engine.stream(tokens(60, 3), wanted(7))
    for number, chunk in enumerate(engine.stream(PROMPT, wanted(6))):
        found += chunk.token_ids
        if number == 1:
            others += engine.generate([tokens(40, 5), tokens(50, 5)], wanted(9))
        if number in (2, 4):
            next(inner)
    assert found == expected(PROMPT, 6)
    assert [each.token_ids for each in others] == [expected(tokens(n, 5), 9) for n in (40, 50)]
    rest = list(inner)
    assert rest[-1].completion.token_ids == expected(tokens(60, 3), 7)
    assert [token for chunk in rest for token in chunk.token_ids] == expected(tokens(60, 3), 7)[2:]
    assert engine.step() == []
    assert_balanced(engine)


def test_a_stream_that_nobody_reads_leaves_nothing():
    engine = toy_engine()
    stream = engine.stream(PROMPT, wanted(5))
    assert engine.is_idle
    del stream
    started = engine.stream(PROMPT, wanted(50))
    next(started)
    del started
    gc.collect()
    assert_balanced(engine)


def test_aborting_a_streams_request_ends_the_stream():
    engine, chunks = toy_engine(), []
    for chunk in engine.stream(PROMPT, wanted(50)):
        chunks.append(chunk)
        if len(chunks) == 2:
            assert engine.abort(chunk.request_id)
    assert len(chunks) == 3
    assert chunks[-1].completion.finish_reason is FinishReason.ABORT
    assert_balanced(engine)


def test_an_engine_is_idle_once_every_chunk_was_given():
    engine = toy_engine()
    name = engine.add_request(PROMPT, wanted(5))
    engine.abort(name)
    assert not engine.is_idle
    assert run(engine)[name].finish_reason is FinishReason.ABORT
    assert engine.is_idle


@pytest.mark.parametrize("prompt", [[0, 32, 5], [5, 2**31 - 1]])
def test_a_token_that_the_model_does_not_have_is_refused(prompt):
    engine = toy_engine(vocab_size=32)
    engine.add_request([0, 31, 5], wanted(1), request_id="edge")
    with pytest.raises(PromptError, match=rf"token 1 of the prompt is {prompt[1]}, .* token ids are 0 to 31"):
        engine.add_request(prompt, wanted(1))
    assert engine.scheduler.num_waiting == 1
    with pytest.raises(PromptError, match="0 to 31"):
        engine.generate([[1, 2], prompt], wanted(1))
    assert run(engine)["edge"].finish_reason is FinishReason.LENGTH
    assert_balanced(engine)


def test_a_prompt_that_is_no_sequence_of_tokens_is_refused():
    engine = toy_engine()
    with pytest.raises(InvalidTokenType):
        engine.generate([1, 2, 3], wanted(1))
    with pytest.raises(InvalidRequest, match="at least one token"):
        engine.add_request([], wanted(1))
    assert_balanced(engine)


def test_a_tokenizer_that_raises_on_a_prompt_leaves_nothing():
    engine = toy_engine(text=Letters())
    with pytest.raises(ValueError, match="substring"):
        engine.generate(["abc", "xyz"], wanted(1))
    assert engine.generate(["abc"], wanted(2))[0].prompt_tokens == 3
    assert_balanced(engine)


def test_stop_texts_need_a_tokenizer():
    engine = toy_engine()
    with pytest.raises(PromptError, match="stop texts need a tokenizer"):
        engine.add_request(PROMPT, wanted(1, stop=("x",)))
    assert_balanced(engine)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop_token_ids": 5}, "tuple of integers >= 0, got 5"),
        ({"stop_token_ids": [5]}, r"tuple of integers >= 0, got \[5\]"),
        ({"stop_token_ids": (3, -1)}, "got"),
        ({"stop_token_ids": ("a",)}, "got"),
    ],
)
def test_stop_tokens_that_are_none_are_refused(settings, message):
    with pytest.raises(InvalidConfig, match=message):
        SamplingParams(**settings)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_is_refused_before_anybody_uses_it(seed):
    with pytest.raises(InvalidConfig, match=f"seed is 0 to .* got {seed}"):
        Sampler(seed)
    with pytest.raises(InvalidConfig, match=f"got {seed}"):
        EngineConfig(seed=seed)


@pytest.mark.parametrize(("prompt_len", "count"), [(1, 11), (10, 2), (11, 1)])
def test_a_prompt_up_to_one_token_below_the_context_is_served(prompt_len, count):
    engine = toy_engine(max_context=12)
    (found,) = engine.generate([tokens(0, prompt_len)], wanted(50))
    assert len(found.token_ids) == count


@pytest.mark.parametrize("partial_reuse", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_tokens_add_up_to_the_prompt(seed, partial_reuse):
    """Cached + missed by reason is the prompt; cached + computed as well, where nobody was thrown back."""
    rng = random.Random(seed)
    engine = toy_engine(num_pages=20, partial_reuse=partial_reuse, prefill_chunk_tokens=rng.choice([None, 3]))
    reads = {}
    for _ in range(40):
        prompt = tokens(100 * rng.randrange(3), rng.randrange(1, 18)) + tokens(rng.randrange(6), 3)
        read = rng.random() < 0.8
        name = engine.add_request(prompt, wanted(rng.randrange(1, 20)), read=read, write=rng.random() < 0.9)
        reads[name] = read
    chunks = []
    for _ in range(60):
        chunks += engine.step()
        running = [name for name, live in engine._live.items() if live.request.state == "running"]
        if running and rng.random() < 0.1:
            engine.scheduler.preempt(rng.choice(running))
    found = run(engine, chunks)
    assert found.keys() == reads.keys()
    assert any(each.preemptions for each in found.values())
    for name, each in found.items():
        assert each.cache_read == reads[name]
        assert all(count >= 0 for count in each.missed_tokens.values())
        if reads[name]:
            assert each.cached_tokens + sum(each.missed_tokens.values()) == each.prompt_tokens
        else:
            assert (each.cached_tokens, each.missed_tokens) == (0, {})
        if each.preemptions:
            assert each.cached_tokens + each.computed_tokens <= each.prompt_tokens
        else:
            assert each.cached_tokens + each.computed_tokens == each.prompt_tokens
            assert each.recomputed_tokens == 0
    if partial_reuse:
        assert any(each.cached_tokens % 4 for each in found.values())


def test_who_waited_through_two_reloads_reads_nothing_in_between():
    """What a waiting request publishes after the first reload is stale after the second."""
    engine = toy_engine(max_running=1, share_in_flight=False)
    names = [engine.add_request(PROMPT, wanted(2)) for _ in range(3)]
    chunks = engine.step()
    engine.bump_epoch()
    while engine.scheduler.num_waiting > 1:
        chunks += engine.step()
    while engine.scheduler.num_running:
        chunks += engine.step()
        if any(chunk.request_id == names[1] and chunk.completion for chunk in chunks):
            break
    assert engine.cache.pages.evictable
    engine.bump_epoch()
    found = run(engine, chunks)
    assert found[names[2]].cached_tokens == 0
    assert [found[name].token_ids for name in names] == [expected(PROMPT, 2)] * 3
    assert_balanced(engine)


class Retiring(PrefixCache):
    """Notes what is retired."""

    def __init__(self, config: CacheConfig) -> None:
        super().__init__(config)
        self.retired: list[object] = []

    def retire(self, namespace):
        self.retired.append(namespace)
        return super().retire(namespace)


def test_a_reload_looks_at_namespaces_that_hold_something_and_keeps_no_list_of_others():
    engine = toy_engine(num_pages=8, cache=Retiring)
    for number in range(50):
        engine.generate([PROMPT], wanted(1), namespace=f"tenant {number}")
    engine.add_request(PROMPT, wanted(1), namespace="waits")
    engine.bump_epoch()
    assert 2 <= len(engine.cache.retired) < 8
    assert engine.cache.retired[-1][1] == b"s5:waits"
    assert engine.cache.pages.free == engine.cache.pages.total
    run(engine)
    assert_balanced(engine)


def test_an_engine_of_another_executor_cannot_reload():
    with pytest.raises(InvalidConfig, match="runs no model"):
        toy_engine().reload(None)


def test_page_ids_need_not_begin_with_zero():
    from tests.unit.runtime.engine.serving import ToyExecutor, never

    cache = PrefixCache(CacheConfig(num_pages=8, page_size=4, first_page=3))
    engine = Engine(cache, ToyExecutor(11 * 4, 4, never), Sampler(), Ticks(), config=SchedulerConfig())
    found = engine.generate([PROMPT, PROMPT, tokens(30, 6)], wanted(5))
    right = [expected(PROMPT, 5), expected(PROMPT, 5), expected(tokens(30, 6), 5)]
    assert [each.token_ids for each in found] == right
    assert (engine._executor.engine._memory[:12] == -1).all()
    assert_balanced(engine)


def test_coming_back_from_a_preemption_is_counted_apart():
    """Hit rates are about first admissions: what a request finds of its own is no hit."""
    engine = toy_engine()
    name = engine.add_request(PROMPT, wanted(9))
    chunks = []
    for _ in range(3):
        chunks += engine.step()
        engine.scheduler.preempt(name)
    found = run(engine, chunks)[name]
    stats = engine.cache.stats
    assert (found.preemptions, found.cached_tokens) == (3, 0)
    assert (stats.lookups, stats.prompt_tokens, stats.matched_tokens) == (1, 9, 0)
    assert_balanced(engine)
