"""One step of paged attention over random KV in shuffled pages; slots that no row may read hold NaN."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from runtime.attention import AttentionBackend, HeadLayout, ReferenceBackend, StepMetadata
from runtime.kv_pool import KVPool

SPARE_PAGES = 1

Row = tuple[int, int]
"""Tokens with KV, and query tokens."""


class PagedStep:
    """Everything that a backend needs for one layer of one step.

    Args:
        rows: What the step computes.
        heads: Heads of the layer.
        page_size: Tokens of a page.
        dtype: Of query, KV and result.
        device: Where they are.
        seed: For KV, query and the order of pages.
        shared_pages: Pages that all rows begin with.
        poison: Whether slots that no row may read are NaN; else zeros, which takes less time to make.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        heads: HeadLayout,
        *,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
        seed: int,
        shared_pages: int = 0,
        poison: bool = True,
    ) -> None:
        self.heads, self.page_size, self.dtype, self.device = heads, page_size, dtype, device
        counts = [-(-(start + extend) // page_size) for start, extend in rows]
        own = sum(counts) - shared_pages * (len(rows) - 1)
        order = np.random.default_rng(seed).permutation(own + SPARE_PAGES).astype(np.int32)
        shared, at, pages = order[:shared_pages], shared_pages, []
        for count in counts:
            stop = at + count - shared_pages
            pages.append(np.concatenate([shared, order[at:stop]]))
            at = stop
        self.metadata = StepMetadata.of(
            pages, [start for start, _ in rows], [extend for _, extend in rows], page_size
        )
        self.pool = KVPool(
            num_layers=1, num_pages=len(order), page_size=page_size, heads=heads, dtype=dtype, device=device
        )
        generator = torch.Generator(device).manual_seed(seed)
        for cache in (self.pool.keys[0], self.pool.values[0]):
            cache.normal_(generator=generator)
        if poison:
            self._poison(pages)
        shape = (self.metadata.num_tokens, heads.num_qo_heads, heads.head_dim)
        self.query = torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)

    def _poison(self, pages: Sequence[np.ndarray]) -> None:
        slots = np.concatenate(
            [
                (own[:, None].astype(np.int64) * self.page_size + np.arange(self.page_size)).reshape(-1)[
                    :length
                ]
                for own, length in zip(pages, self.metadata.kv_lens.tolist(), strict=True)
            ]
        )
        unread = np.ones(self.pool.num_pages * self.page_size, dtype=np.bool_)
        unread[slots] = False
        where = torch.from_numpy(np.flatnonzero(unread)).to(self.device)
        for cache in (self.pool.keys[0], self.pool.values[0]):
            cache.flatten(0, 1).index_fill_(0, where, float("nan"))

    def plan(self, backend: AttentionBackend) -> None:
        """Have a backend prepare for the step."""
        backend.plan(self.metadata)

    def run(self, backend: AttentionBackend) -> Tensor:
        """The layer, by a backend that is prepared."""
        return backend.run(0, self.query, self.pool)

    def expected(self) -> Tensor:
        """What it should be."""
        oracle = ReferenceBackend(self.heads, self.page_size, self.dtype, self.device)
        oracle.plan(self.metadata)
        return self.run(oracle)

    def contiguous(self, row: int) -> tuple[Tensor, Tensor]:
        """K and V of a row without pages, [num_kv_heads, tokens, head_dim] each."""
        first, stop = self.metadata.kv_indptr[row : row + 2].tolist()
        pages = torch.from_numpy(self.metadata.kv_indices[first:stop]).to(self.device)
        kv_len = int(self.metadata.kv_lens[row])
        keys, values = (
            cache[pages].flatten(0, 1)[:kv_len].transpose(0, 1).contiguous()
            for cache in (self.pool.keys[0], self.pool.values[0])
        )
        return keys, values
