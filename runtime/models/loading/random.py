"""Random weights by seed, for tests and for measuring shapes that nobody has weights of."""

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from runtime.models.config import ModelConfig
from runtime.models.decoder import Decoder
from runtime.models.loading.source import build
from runtime.models.weights import tensor_shapes


class RandomSource:
    """Tensors drawn by seed and name: the same pair gives the same numbers, whatever was read before.

    Matrices are normal with deviation `1 / sqrt(columns)`, so that activations keep their size; weights of
    norms are around 1, biases around 0.

    Attributes:
        path: Says that there is no file.
        shapes: Name -> shape of every tensor.
    """

    def __init__(self, config: ModelConfig, seed: int) -> None:
        self.path = Path(f"random weights of seed {seed}")
        self.shapes: Mapping[str, tuple[int, ...]] = tensor_shapes(config)
        self._seed = seed

    def read(self, name: str) -> Tensor:
        """One tensor, float32 on the CPU."""
        digest = hashlib.blake2b(f"{self._seed}/{name}".encode(), digest_size=7).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
        shape = self.shapes[name]
        drawn = torch.randn(shape, generator=generator)
        if len(shape) > 1:
            return drawn / math.sqrt(shape[-1])
        return drawn * 0.1 + (1.0 if name.endswith("norm.weight") else 0.0)


def random_model(
    config: ModelConfig,
    seed: int = 0,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Decoder:
    """A decoder of that shape with random weights.

    Raises:
        InvalidConfig: No such dtype.
    """
    return build(config, RandomSource(config, seed), dtype=dtype, device=torch.device(device))
