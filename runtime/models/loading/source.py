"""From named tensors to a decoder: everything is checked before anything is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from radixcache.errors import InvalidConfig
from runtime.models.config import ModelConfig
from runtime.models.decoder import Decoder
from runtime.models.errors import WeightsMismatch
from runtime.models.weights import (
    EMBEDDING,
    FINAL_NORM,
    OUTPUT_HEAD,
    DecoderWeights,
    LayerWeights,
    layer_tensor,
    tensor_shapes,
)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""What a decoder can compute in."""


class TensorSource(Protocol):
    """Tensors of a checkpoint under the names of `runtime.models.weights`."""

    @property
    def path(self) -> Path:
        """Where they lie, for messages."""
        ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape of every tensor there is, known without reading them."""
        ...

    def read(self, name: str) -> Tensor:
        """One tensor, on the CPU, in the checkpoint's own floating-point dtype."""
        ...


def build(config: ModelConfig, source: TensorSource, *, dtype: torch.dtype, device: torch.device) -> Decoder:
    """A decoder with the tensors of a checkpoint, each read once and converted on its way.

    Raises:
        InvalidConfig: No such dtype.
        WeightsMismatch: Tensors are missing, unexpected or of a wrong shape; nothing was read.
    """
    if dtype not in DTYPES:
        raise InvalidConfig(f"dtype must be one of {', '.join(map(str, DTYPES))}, not {dtype}")
    check_tensors(config, source)
    reader = _Reader(source, dtype, device)
    embedding = reader.merged(EMBEDDING)
    weights = DecoderWeights(
        embedding=embedding,
        layers=tuple(_layer(reader, config, number) for number in range(config.layers)),
        final_norm=reader.merged(FINAL_NORM),
        output_head=embedding if config.tied_embeddings else reader.merged(OUTPUT_HEAD),
    )
    return Decoder(config, weights)


def check_tensors(config: ModelConfig, source: TensorSource) -> None:
    """Compare what a checkpoint holds with what its configuration needs.

    Raises:
        WeightsMismatch: They differ; the error names all tensors at once.
    """
    wanted, found = tensor_shapes(config), dict(source.shapes)
    if config.tied_embeddings:
        # Some checkpoints store the tied head all the same: it is the embedding once more.
        found.pop(OUTPUT_HEAD, None)
    both = [name for name in wanted if name in found]
    missing = [name for name in wanted if name not in found]
    unexpected = [name for name in found if name not in wanted and not name.endswith("rotary_emb.inv_freq")]
    misshapen = {name: (found[name], wanted[name]) for name in both if found[name] != wanted[name]}
    if missing or unexpected or misshapen:
        raise WeightsMismatch(source.path, missing=missing, unexpected=unexpected, misshapen=misshapen)


class _Reader:
    def __init__(self, source: TensorSource, dtype: torch.dtype, device: torch.device) -> None:
        self._source = source
        self._dtype = dtype
        self._device = device

    def merged(self, *names: str) -> Tensor:
        """Tensors one below the other. Beside the result only one of them is in memory at a time."""
        shapes = [self._source.shapes[name] for name in names]
        rows = sum(shape[0] for shape in shapes)
        result = torch.empty((rows, *shapes[0][1:]), dtype=self._dtype, device=self._device)
        start = 0
        for name, shape in zip(names, shapes, strict=True):
            result[start : start + shape[0]].copy_(self._source.read(name))
            start += shape[0]
        return result

    def optional(self, present: bool, names: Sequence[str]) -> Tensor | None:
        return self.merged(*names) if present else None


def _layer(reader: _Reader, config: ModelConfig, number: int) -> LayerWeights:
    def named(*names: str) -> list[str]:
        return [layer_tensor(number, name) for name in names]

    projections = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return LayerWeights(
        attention_norm=reader.merged(*named("input_layernorm.weight")),
        qkv=reader.merged(*named(*(f"{name}.weight" for name in projections))),
        qkv_bias=reader.optional(config.qkv_bias, named(*(f"{name}.bias" for name in projections))),
        q_norm=reader.optional(config.qk_norm, named("self_attn.q_norm.weight")),
        k_norm=reader.optional(config.qk_norm, named("self_attn.k_norm.weight")),
        output=reader.merged(*named("self_attn.o_proj.weight")),
        output_bias=reader.optional(config.output_bias, named("self_attn.o_proj.bias")),
        feed_forward_norm=reader.merged(*named("post_attention_layernorm.weight")),
        gate=reader.merged(*named("mlp.gate_proj.weight")),
        up=reader.merged(*named("mlp.up_proj.weight")),
        down=reader.merged(*named("mlp.down_proj.weight")),
    )
