"""What a decoder asks of the KV pool and of attention. The engine's pool and backends have this form."""

from typing import Protocol, TypeVar

from torch import Tensor


class LayerCache(Protocol):
    """Keys and values of all layers, addressed by slot."""

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store `[nnz, num_kv_heads, head_dim]` keys (rotated) and values at int64 slots `[nnz]`."""
        ...


CacheT = TypeVar("CacheT", bound=LayerCache)
CacheT_contra = TypeVar("CacheT_contra", bound=LayerCache, contravariant=True)


class Attention(Protocol[CacheT_contra]):
    """Causal attention of a step's query tokens over the cached keys and values of their sequences."""

    def run(self, layer: int, query: Tensor, pool: CacheT_contra, /) -> Tensor:
        """Outputs `[nnz, heads, head_dim]` of rotated queries of the same shape, in their dtype."""
        ...
