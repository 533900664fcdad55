"""The KV of all layers in pages: where steps write it, and the page copies that come before a step."""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from radixcache import PageCopy
from radixcache.arguments import as_integer
from radixcache.errors import InvalidArgument, InvalidArgumentType, InvalidConfig
from runtime.attention.base import HeadLayout

DTYPES: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

_SLOT_END: Final = 2**31


class KVPool:
    """K and V of all layers, in pages of the layout NHD. Zeros at first.

    Keys are kept after their rotary embedding: positions are absolute, so cached pages fit every request that
    shares the prefix. All layers lie in one block for K and one for V, so a page copy is one kernel call.

    Args:
        num_layers: Layers of the model, >= 1.
        num_pages: Pages that the cache hands out, >= 1.
        page_size: Tokens of a page, >= 1.
        heads: Heads of a layer.
        dtype: One of `DTYPES`.
        device: Any device of torch.
        first_page: The smallest page id that the cache hands out, >= 0; pages before it are there, too.

    Attributes:
        keys: K of each layer, [first_page + num_pages, page_size, num_kv_heads, head_dim].
        values: V of each layer, of the same shape and strides.
        num_layers: Layers.
        num_pages: Pages of a layer, those before `first_page` included.
        page_size: Tokens of a page.
        heads: Heads of a layer.
        dtype: Type of the elements.

    Raises:
        InvalidConfig: A number lies below its limit, the dtype is none of `DTYPES`, or slots outgrow int32.
        InvalidArgumentType: A number is no integer.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_pages: int,
        page_size: int,
        heads: HeadLayout,
        dtype: torch.dtype,
        device: torch.device | str,
        first_page: int = 0,
    ) -> None:
        self.num_layers = _at_least("num_layers", num_layers, 1)
        self.page_size = _at_least("page_size", page_size, 1)
        self.num_pages = _at_least("num_pages", num_pages, 1) + _at_least("first_page", first_page, 0)
        if dtype not in DTYPES:
            raise InvalidConfig(f"KV is of one of {', '.join(map(str, DTYPES))}, got {dtype}")
        if self.num_pages * self.page_size > _SLOT_END:
            raise InvalidConfig(
                f"{self.num_pages} pages of {self.page_size} tokens have more than {_SLOT_END} slots"
            )
        self.heads = heads
        self.dtype = dtype
        shape = (self.num_layers, self.num_pages, self.page_size, heads.num_kv_heads, heads.head_dim)
        with torch.inference_mode(mode=False):  # so that writes work outside of that mode, too
            self._keys = torch.zeros(shape, dtype=dtype, device=device)
            self._values = torch.zeros(shape, dtype=dtype, device=device)
        self.keys: list[Tensor] = list(self._keys.unbind())
        self.values: list[Tensor] = list(self._values.unbind())
        self._by_slot = [
            (keys.flatten(0, 1), values.flatten(0, 1))
            for keys, values in zip(self.keys, self.values, strict=True)
        ]

    @property
    def device(self) -> torch.device:
        """Where it lies."""
        return self._keys.device

    @property
    def nbytes(self) -> int:
        """Bytes of K and V of all layers."""
        return self._keys.nbytes + self._values.nbytes

    @torch.no_grad()
    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write the KV of tokens into a layer.

        Args:
            layer: Number of the layer.
            slots: Slot of each token, int64 of shape [nnz], on the pool's device.
            keys: [nnz, num_kv_heads, head_dim] of the pool's dtype.
            values: Likewise.

        Raises:
            InvalidArgument: No such layer, or a shape does not fit. Nothing was written.
            InvalidArgumentType: A tensor is of another dtype. Nothing was written.
        """
        if not 0 <= layer < self.num_layers:
            raise InvalidArgument(f"layers are 0 to {self.num_layers - 1}, got {layer}")
        wanted = (*slots.shape, self.heads.num_kv_heads, self.heads.head_dim)
        if slots.dim() != 1 or keys.shape != wanted or values.shape != wanted:
            raise InvalidArgument(
                f"slots [nnz] and KV [nnz, {self.heads.num_kv_heads}, {self.heads.head_dim}] are needed, got "
                f"slots {list(slots.shape)}, keys {list(keys.shape)}, values {list(values.shape)}"
            )
        if slots.dtype != torch.int64 or keys.dtype != self.dtype or values.dtype != self.dtype:
            raise InvalidArgumentType(
                f"slots are int64 and KV is {self.dtype}, got {slots.dtype}, {keys.dtype}, {values.dtype}"
            )
        own_keys, own_values = self._by_slot[layer]
        own_keys.index_copy_(0, slots, keys)
        own_values.index_copy_(0, slots, values)

    def copy(self, copies: Sequence[PageCopy]) -> None:
        """Run page copies in all layers: the first `num_tokens` slots of each source into its target.

        The outcome is that of running them one after the other; those that do not build on one another go
        together.

        Raises:
            InvalidArgument: A page lies outside of the pool, a page is its own target, or `num_tokens` is not
                1 to `page_size`. Nothing was copied.

        Complexity:
            O(tokens copied x layers) memory; four kernel calls, more only where one copy reads what another
            of the same call wrote.
        """
        for order in copies:
            self._require(order)
        for together in _independent(copies):
            steps = [torch.arange(order.num_tokens) for order in together]
            source, target = (
                torch.cat([page * self.page_size + step for page, step in zip(pages, steps, strict=True)])
                for pages in ([order.source for order in together], [order.target for order in together])
            )
            source, target = source.to(self.device), target.to(self.device)
            for cache in (self._keys, self._values):
                by_slot = cache.flatten(1, 2)
                by_slot.index_copy_(1, target, by_slot.index_select(1, source))

    def _require(self, order: PageCopy) -> None:
        for page in (order.source, order.target):
            if not 0 <= page < self.num_pages:
                raise InvalidArgument(f"pages are 0 to {self.num_pages - 1}, got {page} in {order}")
        if order.source == order.target:
            raise InvalidArgument(f"a page is copied to another one, got {order}")
        if not 1 <= order.num_tokens <= self.page_size:
            raise InvalidArgument(f"1 to {self.page_size} tokens of a page are copied, got {order}")


def _independent(copies: Sequence[PageCopy]) -> Iterator[list[PageCopy]]:
    """Runs of copies that may go at once: none reads or writes what an earlier one of its run wrote."""
    together: list[PageCopy] = []
    written: set[int] = set()
    for order in copies:
        if order.source in written or order.target in written:
            yield together
            together, written = [], set()
        together.append(order)
        written.add(order.target)
    if together:
        yield together


def _at_least(name: str, value: int, least: int) -> int:
    number = as_integer(name, value)
    if number < least:
        raise InvalidConfig(f"{name} is at least {least}, got {number}")
    return number
