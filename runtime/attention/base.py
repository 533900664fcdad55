"""What an attention backend is: planned once a step, run once a layer, over the pages of a `KVPool`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from radixcache.arguments import as_integer
from radixcache.errors import InvalidArgument, InvalidArgumentType, InvalidConfig
from runtime.attention.metadata import StepMetadata
from runtime.errors import MetadataError

if TYPE_CHECKING:
    from runtime.kv_pool import KVPool


@dataclass(frozen=True, slots=True)
class HeadLayout:
    """Heads of a layer. Query head h reads KV head `h // group_size`.

    Attributes:
        num_qo_heads: Query heads, a multiple of `num_kv_heads`.
        num_kv_heads: KV heads, >= 1.
        head_dim: Elements of a head, >= 1.

    Raises:
        InvalidConfig: A number lies below 1, or the heads do not divide.
        InvalidArgumentType: A number is no integer.
    """

    num_qo_heads: int
    num_kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = as_integer(field.name, getattr(self, field.name))
            if value < 1:
                raise InvalidConfig(f"{field.name} is at least 1, got {value}")
        if self.num_qo_heads % self.num_kv_heads:
            raise InvalidConfig(
                f"{self.num_qo_heads} query heads cannot be shared out among {self.num_kv_heads} KV heads"
            )

    @property
    def group_size(self) -> int:
        """Query heads that read one KV head."""
        return self.num_qo_heads // self.num_kv_heads


class AttentionBackend(Protocol):
    """Paged attention, causal: a row's queries are its last tokens. Scores are scaled by 1/sqrt(head_dim)."""

    def plan(self, metadata: StepMetadata) -> None:
        """Prepare for the layers of a step.

        Raises:
            MetadataError: See `StepMetadata.require_valid`.
        """
        ...

    def run(self, layer: int, query: Tensor, pool: "KVPool") -> Tensor:
        """Attention of one layer. The KV of the step's own tokens is in the pool already.

        Args:
            layer: Number of the layer.
            query: [nnz, num_qo_heads, head_dim]; the last dimension is contiguous.
            pool: Where the KV is.

        Returns:
            [nnz, num_qo_heads, head_dim] of the query's dtype, contiguous.
        """
        ...


class BackendFactory(Protocol):
    """How a backend is made."""

    def __call__(
        self, heads: HeadLayout, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> AttentionBackend:
        """A backend for queries and KV of `dtype` on `device`."""
        ...


class PlannedBackend(ABC):
    """What all backends share: they refuse the same things, before a kernel sees them.

    Args:
        heads: Heads of a layer.
        page_size: Tokens of a page, >= 1.
        dtype: Type of query, KV and result.
        device: Where they are.
    """

    def __init__(
        self, heads: HeadLayout, page_size: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        if as_integer("page_size", page_size) < 1:
            raise InvalidConfig(f"page_size is at least 1, got {page_size}")
        self.heads = heads
        self.page_size = page_size
        self.dtype = dtype
        self.device = torch.device(device)
        self.scale = heads.head_dim**-0.5
        self._metadata: StepMetadata | None = None

    def plan(self, metadata: StepMetadata) -> None:
        """See `AttentionBackend.plan`."""
        if metadata.page_size != self.page_size:
            raise MetadataError(f"pages hold {self.page_size} tokens, in the metadata {metadata.page_size}")
        metadata.require_valid()
        self._metadata = None
        self._plan(metadata)
        self._metadata = metadata

    @torch.no_grad()
    def run(self, layer: int, query: Tensor, pool: "KVPool") -> Tensor:
        """See `AttentionBackend.run`. For inference: no gradients.

        Raises:
            MetadataError: Nothing is planned.
            InvalidArgument: No such layer, or query or pool are of other shapes than planned.
            InvalidArgumentType: Query or pool are of another dtype.
        """
        if self._metadata is None:
            raise MetadataError("plan comes before run")
        wanted = (self._metadata.num_tokens, self.heads.num_qo_heads, self.heads.head_dim)
        if query.shape != wanted:
            raise InvalidArgument(f"the planned query is {list(wanted)}, got {list(query.shape)}")
        if pool.heads != self.heads or pool.page_size != self.page_size:
            raise InvalidArgument(
                f"the backend is for {self.heads} and pages of {self.page_size} tokens, "
                f"the pool holds {pool.heads} and {pool.page_size}"
            )
        if not 0 <= layer < pool.num_layers:
            raise InvalidArgument(f"layers are 0 to {pool.num_layers - 1}, got {layer}")
        if query.dtype != self.dtype or pool.dtype != self.dtype:
            raise InvalidArgumentType(f"query and KV are {self.dtype}, got {query.dtype} and {pool.dtype}")
        return self._run(query, pool.keys[layer], pool.values[layer])

    @abstractmethod
    def _plan(self, metadata: StepMetadata) -> None: ...

    @abstractmethod
    def _run(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor: ...
