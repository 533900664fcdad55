"""The model that engines are measured with: SmolLM2, or a tiny one that only shows that everything runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import torch

from bench.errors import Unavailable, WrongResult, expect
from bench.options import Options
from bench.workloads.prose import sentences
from radixcache import NullPrefixCache, PrefixCache
from runtime.attention import BACKENDS, AttentionBackend, HeadLayout
from runtime.attention.metadata import StepMetadata
from runtime.clock import Clock, WallClock
from runtime.engine import Engine, EngineConfig, Sampler, TorchExecutor, make_engine
from runtime.executor import Executor
from runtime.kv_pool import KVPool
from runtime.models import (
    Decoder,
    MissingPackage,
    ModelConfig,
    TextCodec,
    load_model,
    load_text,
    random_model,
)
from scheduler import SchedulerConfig

NAME: Final = "smollm2"
CHUNK_TOKENS: Final = 512
"""Tokens of a step at most, as an engine has it by default."""

SAME_MARGIN: Final = 1e-2
"""Of two logits that lie closer than this, last bits may decide which is the larger."""

_TINY: Final = ModelConfig(
    layers=2,
    hidden=64,
    intermediate=128,
    heads=4,
    kv_heads=2,
    head_dim=16,
    vocab=512,
    max_context=1024,
    norm_eps=1e-5,
    tied_embeddings=True,
)


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """A decoder and what prompts are made of.

    Attributes:
        name: What it is.
        decoder: Its weights, float32 on the CPU.
        text: Its tokenizer; `None`: prompts are random ids.
        page_size: Tokens of a page of the engines.
    """

    name: str
    decoder: Decoder
    text: TextCodec | None
    page_size: int

    def prompt(self, seed: int, num_tokens: int) -> list[int]:
        """So many tokens of prose."""
        if self.text is None:
            drawn = np.random.default_rng(seed).integers(0, self.decoder.config.vocab, num_tokens)
            return [int(token) for token in drawn]
        prose = " ".join(islice(sentences(seed), num_tokens // 4 + 1))
        ids = self.text.encode(prose)
        expect("tokens of prose, at least those asked for", len(ids) >= num_tokens, True)
        return list(ids[:num_tokens])

    def engine_config(
        self, num_tokens: int, *, cache: bool = True, token_budget: int = CHUNK_TOKENS, max_running: int = 256
    ) -> EngineConfig:
        """Settings of an engine whose pool has room for `num_tokens`; else as it is by default."""
        return EngineConfig(
            num_pages=-(-num_tokens // self.page_size),
            page_size=self.page_size,
            cache=cache,
            scheduler=SchedulerConfig(policy="k-lpm", token_budget=token_budget, max_running=max_running),
        )

    def engine(self, config: EngineConfig, clock: Clock | None = None) -> Engine:
        """An engine that knows tokens only: decoding texts is no part of what is measured."""
        return make_engine(self.decoder, config, clock=clock)

    def require_same(
        self, what: str, prompt: Sequence[int], found: Sequence[int], wanted: Sequence[int]
    ) -> int:
        """Check greedy outputs of a prompt; behind a tie of two tokens they are two different texts.

        Returns:
            Tokens that were compared.

        Raises:
            WrongResult: They differ where the two tokens are no tie.
        """
        expect(f"{what}, tokens", len(found), len(wanted))
        for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one != other:
                logits = self._next_logits([*prompt, *wanted[:place]])
                apart = float(logits.max() - logits[[one, other]].min())
                if apart > SAME_MARGIN:
                    raise WrongResult(
                        f"{what}: output token {place} is {one}, should be {other}; {apart:.4f} lie between"
                    )
                return place
        return len(wanted)

    def _next_logits(self, ids: Sequence[int]) -> torch.Tensor:
        """Logits behind a text, computed at once and alone."""
        num_pages = -(-len(ids) // self.page_size)
        pool, attention = pool_and_attention(
            self.decoder, EngineConfig(num_pages=num_pages, page_size=self.page_size)
        )
        pages = np.arange(num_pages, dtype=np.int32)
        attention.plan(StepMetadata.of([pages], [0], [len(ids)], self.page_size))
        places = torch.arange(len(ids))
        last = torch.tensor([len(ids) - 1])
        return self.decoder.forward(torch.tensor(ids), places, places, pool, attention, last)[0]


def pool_and_attention(decoder: Decoder, config: EngineConfig) -> tuple[KVPool, AttentionBackend]:
    """What an engine with these settings computes on."""
    shape = decoder.config
    heads = HeadLayout(shape.heads, shape.kv_heads, shape.head_dim)
    pool = KVPool(
        num_layers=shape.layers,
        num_pages=config.num_pages,
        page_size=config.page_size,
        heads=heads,
        dtype=decoder.dtype,
        device=decoder.device,
    )
    return pool, BACKENDS[config.backend](heads, config.page_size, decoder.dtype, decoder.device)


def wrapped_engine(
    decoder: Decoder, config: EngineConfig, sampler: Sampler, wrap: Callable[[Executor], Executor]
) -> Engine:
    """An engine, as `make_engine` makes it, whose executor somebody watches."""
    pool, attention = pool_and_attention(decoder, config)
    clock = WallClock()
    executor = TorchExecutor(decoder, pool, attention, sampler, clock)
    cache = (PrefixCache if config.cache else NullPrefixCache)(config.cache_config())
    return Engine(
        cache,
        wrap(executor),
        sampler,
        clock,
        config=config.scheduler,
        max_context=decoder.config.max_context,
    )


def served_model(options: Options) -> ServedModel:
    """The model of a run.

    Raises:
        Unavailable: A package that brings or reads it is not installed.
    """
    if options.size == "tiny":
        return ServedModel("random weights", random_model(_TINY, options.seed), None, options.page_size)
    try:
        return ServedModel(NAME, load_model(NAME), load_text(NAME), options.page_size)
    except MissingPackage as error:
        raise Unavailable(str(error)) from error
