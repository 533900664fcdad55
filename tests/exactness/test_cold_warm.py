"""An answer is the same whether its prompt was cached or not."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from radixcache import check
from runtime.engine import Completion, Engine, EngineConfig, Sampler, SamplingParams, make_engine
from runtime.engine.executor import TorchExecutor
from runtime.models import Decoder, ModelConfig, random_model
from scheduler import SchedulerConfig

TOLERANCE = 1e-4
PAGE_SIZE = 4
PROMPT = [(17 * place * place + 5 * place) % 61 for place in range(41)]
OTHER = [*PROMPT[:22], *((7 * place) % 61 for place in range(19))]
"""Leaves `PROMPT` within a page."""


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def model(request) -> Decoder:
    flags = {"llama": {}, "qwen2": {"qkv_bias": True, "tied_embeddings": True}, "qwen3": {"qk_norm": True}}
    config = ModelConfig(
        layers=3,
        hidden=48,
        intermediate=80,
        heads=6,
        kv_heads=2,
        head_dim=16,
        vocab=61,
        max_context=256,
        **flags[request.param],
    )
    return random_model(config, seed=3)


@dataclass
class Logits(Sampler):
    """A sampler that remembers the logits it chose from, by request and place."""

    seen: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def sample(self, request_ids: Sequence[str], places: Sequence[int], logits: torch.Tensor) -> list[int]:
        for name, place, row in zip(request_ids, places, logits, strict=True):
            self.seen[name, place] = row.clone()
        return super().sample(request_ids, places, logits)


class Watched:
    """An engine and every logit it chose from."""

    def __init__(
        self, model: Decoder, *, cache: bool = True, partial_reuse: bool = False, **settings
    ) -> None:
        config = EngineConfig(
            num_pages=settings.pop("num_pages", 64),
            page_size=PAGE_SIZE,
            cache=cache,
            partial_reuse=partial_reuse,
            scheduler=SchedulerConfig(**settings),
        )
        self.engine: Engine = make_engine(model, config)
        self.logits = Logits()
        executor = self.engine._executor
        assert isinstance(executor, TorchExecutor)
        executor._sampler = self.engine._sampler = self.logits

    def serve(self, prompts: Sequence[Sequence[int]], num_tokens: int, **more) -> list[Completion]:
        params = SamplingParams(max_new_tokens=num_tokens, ignore_eos=True)
        found = self.engine.generate([list(prompt) for prompt in prompts], params, **more)
        check(self.engine.cache)
        return found

    def logits_of(self, completion: Completion) -> list[torch.Tensor]:
        return [self.logits.seen[completion.request_id, place] for place in range(len(completion.token_ids))]


def assert_same(cold: Watched, warm: Watched, one: Completion, other: Completion) -> int:
    """Logits agree, and tokens do where the cold choice is clear; returns how many choices were."""
    num_clear = 0
    for ours, theirs, token, its in zip(
        cold.logits_of(one), warm.logits_of(other), one.token_ids, other.token_ids, strict=True
    ):
        assert (ours - theirs).abs().max() <= TOLERANCE
        best, second = ours.topk(2).values
        if best - second <= TOLERANCE:
            break  # from here on the outputs may differ
        assert token == its
        num_clear += 1
    return num_clear


def test_at_every_split_point_of_a_prompt(model):
    cold = Watched(model, cache=False)
    (right,) = cold.serve([PROMPT], 6)
    num_clear = 0
    for split in range(1, len(PROMPT) + 1):
        warm = Watched(model)
        warm.serve([PROMPT[:split]], 1)
        (found,) = warm.serve([PROMPT], 6)
        assert found.cached_tokens == min(split, len(PROMPT) - 1) // PAGE_SIZE * PAGE_SIZE
        num_clear += assert_same(cold, warm, right, found)
    assert num_clear >= 0.9 * 6 * len(PROMPT)


def test_where_the_start_of_a_page_is_copied(model):
    cold, warm = Watched(model, cache=False), Watched(model, partial_reuse=True)
    warm.serve([PROMPT], 1)
    (right,), (found,) = cold.serve([OTHER], 6), warm.serve([OTHER], 6)
    assert found.cached_tokens == 22
    assert assert_same(cold, warm, right, found)


def test_a_page_is_copied_before_its_owner_writes_on(model):
    """Two at once leave one page at different places, beside its owner that goes on."""
    prompts = [PROMPT, [*PROMPT[:21], 9, 8, 7], [*PROMPT[:23], 1, 2]]
    cold, warm = Watched(model, cache=False), Watched(model, partial_reuse=True)
    warm.serve([PROMPT[:24]], 1)
    right, found = cold.serve(prompts, 8), warm.serve(prompts, 8)
    assert [each.cached_tokens for each in found] == [24, 21, 23]
    assert all(assert_same(cold, warm, *pair) for pair in zip(right, found, strict=True))


@pytest.mark.parametrize("chunk", [1, 3, 4, 7])
def test_in_chunks(model, chunk):
    prompts = [PROMPT, OTHER, PROMPT[:9]]
    cold, warm = Watched(model, cache=False), Watched(model, prefill_chunk_tokens=chunk, token_budget=9)
    warm.serve([PROMPT[:18]], 1)
    right, found = cold.serve(prompts, 6), warm.serve(prompts, 6)
    assert all(each.cached_tokens for each in found)
    assert all(assert_same(cold, warm, *pair) for pair in zip(right, found, strict=True))


@pytest.mark.parametrize("partial_reuse", [False, True])
def test_through_preemption_and_eviction(model, partial_reuse):
    prompts = [[*PROMPT[: 8 + 3 * number], number, 60 - number] for number in range(8)]
    cold = Watched(model, cache=False, num_pages=256)
    warm = Watched(model, num_pages=30, partial_reuse=partial_reuse, prefill_chunk_tokens=6)
    engine, params = warm.engine, SamplingParams(max_new_tokens=24, ignore_eos=True)
    names = [engine.add_request(prompt, params) for prompt in [*prompts, *prompts]]
    found, num_steps = {}, 0
    while not engine.is_idle:
        for chunk in engine.step():
            if chunk.completion is not None:
                found[chunk.request_id] = chunk.completion
        num_steps += 1
        running = [each.request for each in engine._live.values() if each.request.state == "running"]
        if num_steps % 5 == 0 and len(running) > 1:
            engine.scheduler.preempt(running[num_steps % len(running)].request_id)
        check(engine.cache)
    assert sum(each.preemptions for each in found.values())
    assert sum(each.cached_tokens for each in found.values())
    assert engine.cache.stats.evicted_pages
    assert sum(each.recomputed_tokens for each in found.values())
    right = cold.serve(prompts, 24) * 2
    pairs = zip(right, (found[name] for name in names), strict=True)
    assert all(assert_same(cold, warm, *pair) for pair in pairs)


@pytest.mark.parametrize("policy", ["fcfs", "lpm", "dfs", "hrrn"])
def test_in_conversations_that_run_side_by_side(model, policy):
    cold, warm = Watched(model, cache=False), Watched(model, policy=policy, max_running=3)
    prompts = [[*PROMPT[:11], number] for number in range(5)]
    for _ in range(3):
        right, found = cold.serve(prompts, 5), warm.serve(prompts, 5)
        num_clear = sum(assert_same(cold, warm, *pair) for pair in zip(right, found, strict=True))
        assert num_clear >= 20
        prompts = [
            [*prompt, *each.token_ids, *PROMPT[:6]] for prompt, each in zip(prompts, right, strict=True)
        ]
    assert all(each.cached_tokens >= 24 for each in found)


def test_other_tenants_and_other_weights_are_cold(model):
    warm = Watched(model)
    warm.serve([PROMPT], 1, namespace="tenant a")
    (own,) = warm.serve([PROMPT], 1, namespace="tenant a")
    (other,) = warm.serve([PROMPT], 1, namespace="tenant b")
    assert (own.cached_tokens, other.cached_tokens) == (40, 0)
    new_weights = random_model(model.config, seed=4)
    warm.engine.reload(new_weights)
    cold = Watched(new_weights, cache=False)
    (right,), (found,) = cold.serve([PROMPT], 6), warm.serve([PROMPT], 6, namespace="tenant a")
    assert found.cached_tokens == 0
    assert assert_same(cold, warm, right, found)


def test_log_probabilities_of_a_prompt_are_those_of_its_tokens(model):
    warm = Watched(model, prefill_chunk_tokens=7)
    warm.serve([PROMPT], 1)
    params = SamplingParams(max_new_tokens=1, prompt_logprobs=True)
    (found,) = warm.engine.generate([PROMPT], params)
    assert found.prompt_logprobs is not None
    assert torch.isnan(torch.tensor(found.prompt_logprobs[0]))
    cold = Watched(model, cache=False)
    for place in (1, 2, 20, 40):
        (before,) = cold.serve([PROMPT[:place]], 1)
        scores = torch.log_softmax(cold.logits_of(before)[0], dim=-1)
        assert abs(float(scores[PROMPT[place]]) - float(found.prompt_logprobs[place])) <= TOLERANCE
