"""Real models, as their published `config.json` describes them. Dense decoders only."""

from collections.abc import Mapping
from typing import Final

from radixcache.errors import UnknownName
from runtime.cost.shape import ModelShape

_ALL = (
    ModelShape(
        name="Llama-3.1-8B",
        layers=32,
        hidden=4096,
        intermediate=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        tied_embeddings=False,
        max_context=131072,
        source="config.json of meta-llama/Llama-3.1-8B",
    ),
    ModelShape(
        name="Llama-3.1-70B",
        layers=80,
        hidden=8192,
        intermediate=28672,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocab=128256,
        tied_embeddings=False,
        max_context=131072,
        source="config.json of meta-llama/Llama-3.1-70B",
    ),
    ModelShape(
        name="Qwen3-0.6B",
        layers=28,
        hidden=1024,
        intermediate=3072,
        heads=16,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=True,
        max_context=40960,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-0.6B",
    ),
    ModelShape(
        name="Qwen3-4B",
        layers=36,
        hidden=2560,
        intermediate=9728,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=True,
        max_context=40960,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-4B",
    ),
    ModelShape(
        name="Qwen3-8B",
        layers=36,
        hidden=4096,
        intermediate=12288,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=False,
        max_context=40960,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-8B",
    ),
    ModelShape(
        name="Qwen3-14B",
        layers=40,
        hidden=5120,
        intermediate=17408,
        heads=40,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=False,
        max_context=40960,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-14B",
    ),
    ModelShape(
        name="Qwen3-32B",
        layers=64,
        hidden=5120,
        intermediate=25600,
        heads=64,
        kv_heads=8,
        head_dim=128,
        vocab=151936,
        tied_embeddings=False,
        max_context=40960,
        qk_norm=True,
        source="config.json of Qwen/Qwen3-32B",
    ),
    ModelShape(
        name="Qwen2.5-7B",
        layers=28,
        hidden=3584,
        intermediate=18944,
        heads=28,
        kv_heads=4,
        head_dim=128,
        vocab=152064,
        tied_embeddings=False,
        max_context=131072,
        qkv_bias=True,
        source="config.json of Qwen/Qwen2.5-7B",
    ),
    ModelShape(
        name="Mistral-7B-v0.3",
        layers=32,
        hidden=4096,
        intermediate=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        vocab=32768,
        tied_embeddings=False,
        max_context=32768,
        source="config.json of mistralai/Mistral-7B-v0.3",
    ),
    ModelShape(
        name="SmolLM2-135M",
        layers=30,
        hidden=576,
        intermediate=1536,
        heads=9,
        kv_heads=3,
        head_dim=64,
        vocab=49152,
        tied_embeddings=True,
        max_context=8192,
        source="config.json of HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
)

MODELS: Final[Mapping[str, ModelShape]] = {model.name: model for model in _ALL}


def find_model(name: str) -> ModelShape:
    """The model of that name.

    Raises:
        UnknownName: None has it; the message offers the nearest names.

    Example:
        >>> find_model("Llama-3.1-8B").num_parameters
        8030261248
    """
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    return MODELS[name]
