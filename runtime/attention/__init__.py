"""Attention over paged KV: the arrays of a step, and the backends that read them."""

from runtime.attention.base import AttentionBackend, BackendFactory, HeadLayout
from runtime.attention.flashinfer import FlashInferBackend
from runtime.attention.metadata import MetadataBuilder, StepMetadata, rows_to_compute
from runtime.attention.reference import ReferenceBackend
from runtime.attention.torch_paged import TorchBackend

__all__ = [
    "BACKENDS",
    "AttentionBackend",
    "BackendFactory",
    "FlashInferBackend",
    "HeadLayout",
    "MetadataBuilder",
    "ReferenceBackend",
    "StepMetadata",
    "TorchBackend",
    "rows_to_compute",
]

BACKENDS: dict[str, BackendFactory] = {
    "reference": ReferenceBackend,
    "torch": TorchBackend,
    "flashinfer": FlashInferBackend,
}
"""Attention backends by name."""
