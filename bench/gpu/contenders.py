"""Backends under test, and how far they may be off."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from runtime.attention import AttentionBackend, FlashInferBackend, HeadLayout, TorchBackend

TOLERANCES = {
    torch.float32: (1e-5, 1e-5),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}
"""Relative and absolute, by dtype: a few of its last places where elements are of the order of one."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A backend that can be made for any heads.

    Attributes:
        name: As shown.
        make: Makes it.
        dtypes: What it is tried with.
        head_dims: What it is tried with.
    """

    name: str
    make: Callable[[HeadLayout, int, torch.dtype, torch.device], AttentionBackend]
    dtypes: tuple[torch.dtype, ...]
    head_dims: tuple[int, ...]


def contenders(backend: str, device: torch.device) -> list[Contender]:
    """All ways of a backend, the plain one first."""
    if backend == "torch":
        dtypes = (torch.float32,) if device.type == "cpu" else (torch.float32, torch.bfloat16)
        return [Contender("torch", TorchBackend, dtypes, (64, 128))]
    sixteen_bits = (torch.bfloat16, torch.float16)
    return [
        Contender("flashinfer", FlashInferBackend, sixteen_bits, (64, 128)),
        Contender(
            "flashinfer, decodes apart",
            partial(FlashInferBackend, split="decode"),
            sixteen_bits[:1],
            (128,),
        ),
        Contender(
            "flashinfer, shared prefix once",
            partial(FlashInferBackend, split="prefix"),
            sixteen_bits[:1],
            (128,),
        ),
    ]


def times_tolerance(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest error as a multiple of what is allowed; infinite where something is not finite."""
    relative, absolute = TOLERANCES[wanted.dtype]
    error = (found.double() - wanted.double()).abs() / (absolute + relative * wanted.double().abs())
    return float(error.max()) if bool(torch.isfinite(error).all()) else float("inf")
