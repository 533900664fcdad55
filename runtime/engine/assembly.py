"""Putting an engine together."""

from dataclasses import dataclass, field
from pathlib import Path

import torch

from radixcache import CacheConfig, NullPrefixCache, PrefixCache
from radixcache.errors import UnknownName
from runtime.attention import BACKENDS, HeadLayout
from runtime.clock import Clock, WallClock
from runtime.engine.engine import Engine
from runtime.engine.executor import TorchExecutor
from runtime.engine.sampling import Sampler, require_seed
from runtime.kv_pool import KVPool
from runtime.models import Decoder, TextCodec, load_model_and_text
from scheduler import SchedulerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Settings of an `Engine`.

    Attributes:
        num_pages: Pages of KV, >= 1.
        page_size: Tokens a page holds, >= 1.
        backend: Attention kernels, a name in `runtime.attention.BACKENDS`.
        cache: Whether prefixes are cached.
        eviction: Eviction policy, see `radixcache.CacheConfig`.
        partial_reuse: Whether starts of pages are copied.
        scheduler: Settings of the scheduler.
        seed: Of draws for requests that bring none.

    Raises:
        InvalidConfig: See `CacheConfig` and `Sampler`; or no such backend.
    """

    num_pages: int = 1024
    page_size: int = 16
    backend: str = "torch"
    cache: bool = True
    eviction: str = "lru"
    partial_reuse: bool = False
    scheduler: SchedulerConfig = field(
        default_factory=lambda: SchedulerConfig(policy="k-lpm", token_budget=512)
    )
    seed: int = 0

    def __post_init__(self) -> None:
        self.cache_config()
        require_seed(self.seed)
        if self.backend not in BACKENDS:
            raise UnknownName("attention backend", self.backend, BACKENDS)

    def cache_config(self) -> CacheConfig:
        """The cache's part of it."""
        return CacheConfig(
            num_pages=self.num_pages,
            page_size=self.page_size,
            eviction=self.eviction,
            partial_reuse=self.partial_reuse,
        )


def make_engine(
    model: Decoder,
    config: EngineConfig | None = None,
    *,
    text: TextCodec | None = None,
    clock: Clock | None = None,
) -> Engine:
    """An engine for a model that is loaded.

    Args:
        model: The decoder; its dtype and device are those of the KV.
        config: Settings; `None`: as they are by default.
        text: Its tokenizer.
        clock: Tells the time; `None`: the wall clock.

    Raises:
        BackendUnavailable: The attention backend needs a package or a device that is not there.
    """
    config, clock = config or EngineConfig(), clock or WallClock()
    shape, sampler = model.config, Sampler(config.seed)
    cache = (PrefixCache if config.cache else NullPrefixCache)(config.cache_config())
    return Engine(
        cache,
        make_executor(model, config.cache_config(), sampler, clock, backend=config.backend),
        sampler,
        clock,
        config=config.scheduler,
        text=text,
        eos_ids=frozenset(shape.eos_ids),
        max_context=shape.max_context,
        vocab_size=shape.vocab,
    )


def make_executor(
    model: Decoder, config: CacheConfig, sampler: Sampler, clock: Clock, *, backend: str = "torch"
) -> TorchExecutor:
    """What runs plans of a scheduler on a model, with KV for the pages of a cache.

    Args:
        model: The decoder; its dtype and device are those of the KV.
        config: Of the cache.
        sampler: Chooses tokens; takes the likeliest where it was told nothing of a request.
        clock: Measures steps.
        backend: Attention kernels, a name in `runtime.attention.BACKENDS`.

    Raises:
        UnknownName: No such backend.
        MemoryError: The pages do not fit into the device's memory.
        BackendUnavailable: It needs a package or a device that is not there.
    """
    if backend not in BACKENDS:
        raise UnknownName("attention backend", backend, BACKENDS)
    shape = model.config
    heads = HeadLayout(shape.heads, shape.kv_heads, shape.head_dim)
    try:
        pool = KVPool(
            num_layers=shape.layers,
            num_pages=config.num_pages,
            page_size=config.page_size,
            heads=heads,
            dtype=model.dtype,
            device=model.device,
            first_page=config.first_page,
        )
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise MemoryError(f"{config.num_pages} pages of {config.page_size} tokens: {reason}") from error
    attention = BACKENDS[backend](heads, config.page_size, model.dtype, model.device)
    return TorchExecutor(model, pool, attention, sampler, clock)


def load_engine(
    path_or_name: Path | str,
    config: EngineConfig | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Engine:
    """An engine for a Hugging Face folder, a GGUF file, or a name in `runtime.models.NAMED_MODELS`.

    Raises:
        RadixCacheError: See `runtime.models.load_model_and_text` and `make_engine`.
    """
    model, text = load_model_and_text(path_or_name, dtype, device)
    return make_engine(model, config, text=text)
