"""The executor of real models: log-probabilities, copies, draws, rows that raise."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from radixcache import CacheConfig, PrefixCache, check
from radixcache.errors import InvalidConfig
from runtime.attention import HeadLayout, TorchBackend
from runtime.engine import (
    Engine,
    EngineConfig,
    FinishReason,
    Sampler,
    SamplingError,
    SamplingParams,
    TorchExecutor,
    make_engine,
)
from runtime.engine.executor import known_ids
from runtime.kv_pool import KVPool
from runtime.models import Decoder, ModelConfig, random_model
from scheduler import Request, Row, SchedulerConfig
from tests.unit.runtime.engine.serving import Ticks, assert_balanced, run

CONFIG = ModelConfig(
    layers=2, hidden=32, intermediate=48, heads=4, kv_heads=2, head_dim=8, vocab=43, max_context=96
)
PROMPT = [(13 * place * place + 3 * place) % 43 for place in range(21)]


@pytest.fixture(scope="module")
def model() -> Decoder:
    return random_model(CONFIG, seed=1)


class Watched:
    """A model around whose passes something happens."""

    def __init__(self, model: Decoder, around: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        self._model, self._around = model, around
        self.config, self.dtype, self.device = model.config, model.dtype, model.device

    def forward(self, token_ids, positions, *others):
        logits = self._model.forward(token_ids, positions, *others)
        self._around(token_ids, logits)
        return logits


def engine_of(model: Decoder, *, partial_reuse: bool = False, cache: bool = True, **settings) -> Engine:
    config = EngineConfig(
        num_pages=settings.pop("num_pages", 64),
        page_size=4,
        cache=cache,
        partial_reuse=partial_reuse,
        scheduler=SchedulerConfig(**settings),
    )
    return make_engine(model, config, clock=Ticks())


def scored(count: int = 3, **more) -> SamplingParams:
    return SamplingParams(max_new_tokens=count, prompt_logprobs=True, ignore_eos=True, **more)


def plain(count: int = 3, **more) -> SamplingParams:
    return SamplingParams(max_new_tokens=count, ignore_eos=True, **more)


@pytest.fixture(scope="module")
def right(model) -> np.ndarray:
    """Log-probabilities of `PROMPT`, from one pass over all of it."""
    (found,) = engine_of(model, cache=False).generate([PROMPT], scored(1))
    assert np.isnan(found.prompt_logprobs[0])
    assert not np.isnan(found.prompt_logprobs[1:]).any()
    return found.prompt_logprobs


@pytest.mark.parametrize("chunk", [None, 1, 3, 20])
def test_log_probabilities_beside_others_in_chunks_and_through_preemption(model, right, chunk):
    engine = engine_of(model, prefill_chunk_tokens=chunk, token_budget=40)
    engine.generate([PROMPT], plain(1))
    names = [engine.add_request(PROMPT, params) for params in (plain(), scored(), plain(), scored())]
    chunks = []
    for number in range(40):
        chunks += engine.step()
        if number in (0, 3):
            for name in names:
                if name in engine._live and engine._live[name].request.state == "running":
                    engine.scheduler.preempt(name)
    found = run(engine, chunks)
    assert any(found[name].preemptions for name in names)
    for place, name in enumerate(names):
        assert (found[name].prompt_logprobs is not None) == bool(place % 2)
        if place % 2:
            np.testing.assert_allclose(found[name].prompt_logprobs, right, atol=1e-5)
    assert not engine._executor._logprobs
    assert_balanced(engine)


def test_log_probabilities_where_rows_raise(model, right):
    """A step that is run again row by row scores as the whole would have; who fails keeps what it had."""
    engine, bad = engine_of(model, prefill_chunk_tokens=6), [*PROMPT[:8], 42, 41, 40, 39, 38, 37]

    def breaks(token_ids, logits):
        if {38, 37} & set(token_ids.tolist()) and 42 not in PROMPT:
            raise RuntimeError("kernel")

    engine._executor.model = Watched(model, breaks)
    found = engine.generate([PROMPT, bad, PROMPT], scored())
    reasons = [each.finish_reason for each in found]
    assert reasons == [FinishReason.LENGTH, FinishReason.ERROR, FinishReason.LENGTH]
    np.testing.assert_allclose(found[0].prompt_logprobs, right, atol=1e-5)
    np.testing.assert_allclose(found[2].prompt_logprobs, right, atol=1e-5)
    computed = found[1].computed_tokens
    assert 0 < computed < len(bad)
    np.testing.assert_allclose(found[1].prompt_logprobs[1:8], right[1:8], atol=1e-5)
    assert np.isnan(found[1].prompt_logprobs[computed + 1 :]).all()
    assert not engine._executor._logprobs
    assert_balanced(engine)


def test_log_probabilities_of_one_token_and_of_a_prompt_that_never_ran(model):
    engine = engine_of(model, max_running=1)
    (one,) = engine.generate([PROMPT[:1]], scored(1))
    assert one.prompt_logprobs.shape == (1,)
    assert np.isnan(one.prompt_logprobs).all()
    first, late = engine.add_request(PROMPT, scored()), engine.add_request(PROMPT, scored())
    chunks = engine.step()
    engine.abort(late)
    found = run(engine, chunks)
    assert np.isnan(found[late].prompt_logprobs).all()
    assert found[late].prompt_logprobs.shape == (len(PROMPT),)
    assert not np.isnan(found[first].prompt_logprobs[1:]).any()


def test_nothing_is_kept_of_a_request_that_is_aborted_within_a_pass(model):
    engine = engine_of(model)
    engine._executor.model = Watched(model, lambda token_ids, logits: engine.abort("a"))
    engine.add_request(PROMPT, scored(), request_id="a")
    engine.add_request(PROMPT[:5], plain(), request_id="b")
    found = run(engine)
    assert found["a"].finish_reason is FinishReason.ABORT
    assert len(found["b"].token_ids) == 3
    assert not engine._executor._logprobs
    assert_balanced(engine)


@pytest.mark.parametrize("always", [False, True])
def test_copies_that_raise_fail_those_who_need_them(model, always):
    """Once: nobody. Always: only the requests whose pages are copied."""
    engine = engine_of(model, partial_reuse=True)
    engine.generate([PROMPT], plain(1))
    branches = [[*PROMPT[:10], 1, 2, 3], [*PROMPT[:13], 4, 5], [7, 8, 9]]
    right = [each.token_ids for each in engine_of(model, cache=False).generate(branches, plain(5))]
    pool, num_calls = engine._executor._pool, 0
    copy = pool.copy

    def breaks(copies):
        nonlocal num_calls
        num_calls += 1
        if always or num_calls == 1:
            raise RuntimeError("copy")
        copy(copies)

    pool.copy = breaks
    found = engine.generate(branches, plain(5))
    assert num_calls == 3
    for place, each in enumerate(found):
        if always and place < 2:
            assert (each.finish_reason, each.token_ids) == (FinishReason.ERROR, [])
        else:
            assert each.token_ids == right[place]
    assert_balanced(engine)


class Spoiled:
    """A model whose passes are counted, and that gives a request no numbers once it has so many tokens.

    The request is known by its first token, 42, and rows of it by their positions.
    """

    def __init__(self, model: Decoder, engine: Engine, at: int, value: float) -> None:
        self._model, self._engine, self._at, self._value = model, engine, at, value
        self.config, self.dtype, self.device = model.config, model.dtype, model.device
        self.num_passes = self.num_spoiled = 0

    def forward(self, *arguments):
        self.num_passes += 1
        logits = self._model.forward(*arguments)
        rows = self._engine.scheduler._open_plan.rows
        generating = [row.request for row in rows if row.max_tokens]
        for place, request in enumerate(generating):
            if request.prompt.numpy()[0] == 42 and len(request.output) == self._at:
                logits[place] = self._value
                self.num_spoiled += 1
        return logits


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.parametrize("chunk", [None, 5])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_logits_that_are_no_numbers_fail_their_request_alone_and_cost_no_second_pass(
    model, value, at, chunk, temperature
):
    bad = [42, *range(10)]
    prompts = [PROMPT, bad, PROMPT[:7], [*PROMPT[:9], 3, 1]]
    params = [plain(8, temperature=temperature, seed=place) for place in range(4)]
    engines = [engine_of(model, prefill_chunk_tokens=chunk) for _ in range(2)]
    passes = [Spoiled(model, engine, at, value) for engine in engines]
    for engine, spoiled in zip(engines, passes, strict=True):
        engine._executor.model = spoiled
    found = engines[0].generate(prompts, params)
    without = engines[1].generate(
        [prompt for prompt in prompts if prompt is not bad],
        [each for prompt, each in zip(prompts, params, strict=True) if prompt is not bad],
    )
    failed = found.pop(1)
    assert [each.token_ids for each in found] == [each.token_ids for each in without]
    assert (failed.finish_reason, len(failed.token_ids)) == (FinishReason.ERROR, at)
    assert isinstance(failed.error, SamplingError)
    assert f"its largest logit is {value}" in str(failed.error)
    assert (passes[0].num_spoiled, passes[1].num_spoiled) == (1, 0)
    assert passes[0].num_passes == passes[1].num_passes
    computed_before = len(bad) if at else 0 if chunk is None else 10
    assert failed.computed_tokens == computed_before
    cache, namespace = engines[0].cache, engines[0]._namespace(None)
    published = cache.peek([*bad, *failed.token_ids, 0], namespace).matched_len
    assert published == computed_before // 4 * 4
    assert_balanced(engines[0])


def test_every_row_bad_fails_everybody_in_one_pass(model):
    engine = engine_of(model)
    spoiled = Spoiled(model, engine, 0, float("nan"))
    engine._executor.model = spoiled
    found = engine.generate([[42, place, 5] for place in range(5)], plain(4))
    assert {type(each.error) for each in found} == {SamplingError}
    assert [f"request 'request-{place}'" in str(each.error) for place, each in enumerate(found)] == [True] * 5
    assert spoiled.num_passes == 1
    assert_balanced(engine)


def test_draws_are_the_same_alone_in_company_through_preemption_and_after_failures(model):
    params = plain(12, temperature=1.5, top_p=0.95, seed=11)
    (alone,) = engine_of(model, cache=False).generate([PROMPT], params)
    assert len(set(alone.token_ids)) > 3
    calls = [0]

    def sometimes(token_ids, logits):
        calls[0] += 1
        if len(logits) > 1 and calls[0] % 3 == 0:
            raise RuntimeError("kernel")

    engine = engine_of(model, prefill_chunk_tokens=5)
    engine._executor.model = Watched(model, sometimes)
    name = engine.add_request(PROMPT, params)
    for place in range(4):
        engine.add_request(PROMPT[place + 1 :], plain(12, temperature=0.7))
    chunks = []
    for number in range(60):
        chunks += engine.step()
        live = engine._live.get(name)
        if number > 5 and live and live.request.state == "running" and live.request.num_preemptions < 2:
            engine.scheduler.preempt(name)
    found = run(engine, chunks)[name]
    assert found.token_ids == alone.token_ids
    assert found.preemptions == 2
    assert calls[0] > 30


def test_a_row_computes_the_tokens_at_its_positions():
    """Wherever it begins and ends: in the prompt, in the output, or across; in chunks after a preemption."""
    request = Request.of("a", [10, 11, 12], 9)
    request.output.extend([20, 21, 22, 23])
    known = [10, 11, 12, 20, 21, 22, 23]
    for start in range(7):
        for stop in range(start + 1, 8):
            ids = known_ids(Row(request, start, stop - start, 0))
            assert (ids.tolist(), ids.dtype) == (known[start:stop], np.int32)


def test_any_temperature_that_is_allowed_takes_a_likely_token():
    """The smallest ones must not overflow: they come to the likeliest token."""
    logits = torch.tensor([[3.0, 70.0, -20.0, 69.9], [1.0, 2.0, -float("inf"), 0.0]])
    for temperature in (5e-324, 1e-308, 1e-30, 1e-3):
        sampler = Sampler()
        for name in "ab":
            sampler.add(name, SamplingParams(temperature=temperature))
        assert sampler.sample(["a", "b"], [0, 0], logits) == [1, 1]
    for temperature in (1.0, 1e300):
        sampler = Sampler()
        for name in "ab":
            sampler.add(name, SamplingParams(temperature=temperature))
        drawn = {sampler.sample(["a", "b"], [place, place], logits)[1] for place in range(50)}
        assert drawn == {0, 1, 3}


def test_pages_may_begin_behind_some_that_an_engine_keeps(model):
    """Pages below the first hold something else, and stay as they are."""
    heads = HeadLayout(CONFIG.heads, CONFIG.kv_heads, CONFIG.head_dim)
    cache = PrefixCache(CacheConfig(num_pages=24, page_size=4, first_page=5, partial_reuse=True))
    pool = KVPool(
        num_layers=2,
        num_pages=24,
        page_size=4,
        heads=heads,
        dtype=torch.float32,
        device="cpu",
        first_page=5,
    )
    for layer in range(2):
        pool.keys[layer][:5] = pool.values[layer][:5] = 7.0
    sampler = Sampler()
    attention = TorchBackend(heads, 4, torch.float32, torch.device("cpu"))
    executor = TorchExecutor(model, pool, attention, sampler, Ticks())
    engine = Engine(cache, executor, sampler, Ticks(), config=SchedulerConfig(prefill_chunk_tokens=6))
    prompts = [PROMPT, [*PROMPT[:10], 1, 2], PROMPT[:6]]
    right = [each.token_ids for each in engine_of(model, cache=False).generate(prompts, plain(6))]
    for _ in range(2):
        assert [each.token_ids for each in engine.generate(prompts, plain(6))] == right
        check(cache)
    for layer in range(2):
        assert (pool.keys[layer][:5] == 7.0).all()
        assert (pool.values[layer][:5] == 7.0).all()


def test_who_waits_or_was_thrown_back_is_computed_with_new_weights(model):
    new = random_model(CONFIG, seed=2)
    engine = engine_of(model, max_running=2)
    engine.generate([PROMPT], plain(1))
    names = [engine.add_request(PROMPT, plain(8)) for _ in range(3)]
    chunks = [*engine.step(), *engine.step()]
    engine.scheduler.preempt(names[1])
    before = engine._live[names[1]].request.output.copy()
    engine.reload(new)
    found = run(engine, chunks)
    cold = engine_of(new, cache=False)
    waited, resumed = cold.generate([PROMPT, [*PROMPT, *before]], [plain(8), plain(8 - len(before))])
    assert found[names[2]].token_ids == waited.token_ids
    assert found[names[1]].token_ids == [*before, *resumed.token_ids]
    (after,) = engine.generate([PROMPT], plain(8))
    assert after.cached_tokens == 0
    assert after.token_ids == waited.token_ids
    assert_balanced(engine)


def test_new_weights_of_another_kind_are_refused(model):
    engine = engine_of(model)
    with pytest.raises(InvalidConfig, match=r"float32 on cpu as the old ones, got torch\.bfloat16 on cpu"):
        engine.reload(random_model(CONFIG, seed=2, dtype=torch.bfloat16))
    wider = ModelConfig(
        layers=2, hidden=32, intermediate=56, heads=4, kv_heads=2, head_dim=8, vocab=43, max_context=96
    )
    with pytest.raises(InvalidConfig, match="of the same shape"):
        engine.reload(random_model(wider, seed=2))
    assert engine._epoch == 0
    assert engine._executor.model is model


def test_a_prompt_with_a_token_beyond_the_vocabulary_reaches_no_kernel(model):
    engine = engine_of(model)
    with pytest.raises(ValueError, match=r"token 2 of the prompt is 43, .* 0 to 42"):
        engine.add_request([1, 42, 43], plain(1))
    assert_balanced(engine)
