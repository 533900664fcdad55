"""Rows of random KV in shuffled pages, everything else NaN, and what attention over them is by definition."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from runtime.attention import HeadLayout, StepMetadata
from runtime.attention.metadata import IndexArray
from runtime.kv_pool import KVPool

SPARE_PAGES = 3

Rows = list[tuple[int, int]]
"""(tokens with KV, query tokens) of each row."""


@dataclass
class World:
    """A step over a pool in which every slot that no row may read is NaN."""

    metadata: StepMetadata
    pool: KVPool
    query: Tensor
    pages: list[IndexArray]
    keys: list[Tensor]
    values: list[Tensor]

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        page_size: int,
        heads: HeadLayout,
        dtype: torch.dtype,
        device: str = "cpu",
        shared_pages: int = 0,
        seed: int = 0,
    ) -> Self:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(dtype).to(device)

        counts = [-(-(start + extend) // page_size) for start, extend in rows]
        order = torch.randperm(sum(counts) + SPARE_PAGES, generator=generator).numpy().astype(np.int32)
        ends = np.cumsum(counts)
        pages = [order[end - count : end].copy() for end, count in zip(ends, counts, strict=True)]
        for each in pages:
            each[:shared_pages] = pages[0][:shared_pages]
        starts, extend_lens = zip(*rows, strict=True)
        pool = KVPool(
            num_layers=1, num_pages=len(order), page_size=page_size, heads=heads, dtype=dtype, device=device
        )
        pool.keys[0].fill_(float("nan"))
        pool.values[0].fill_(float("nan"))
        keys, values = [], []
        for each, (start, extend) in zip(pages, rows, strict=True):
            shape = (start + extend, heads.num_kv_heads, heads.head_dim)
            keys.append(normal(*shape))
            values.append(normal(*shape))
            shared = shared_pages * page_size
            keys[-1][:shared], values[-1][:shared] = keys[0][:shared], values[0][:shared]
            positions = np.arange(start + extend)
            slots = each[positions // page_size].astype(np.int64) * page_size + positions % page_size
            pool.write(0, torch.from_numpy(slots).to(device), keys[-1], values[-1])
        return cls(
            metadata=StepMetadata.of(pages, starts, extend_lens, page_size),
            pool=pool,
            query=normal(sum(extend_lens), heads.num_qo_heads, heads.head_dim),
            pages=pages,
            keys=keys,
            values=values,
        )

    def expected(self) -> np.ndarray:
        """Query by query, in float64, without pages: [nnz, num_qo_heads, head_dim]."""
        heads, query = self.pool.heads, self.query.double().cpu().numpy()
        source = [head * heads.num_kv_heads // heads.num_qo_heads for head in range(heads.num_qo_heads)]
        out = np.empty_like(query)
        at = 0
        for keys, values, q_len in zip(self.keys, self.values, self.metadata.q_lens, strict=True):
            own_keys, own_values = (
                each.double().cpu().numpy().transpose(1, 0, 2)[source] for each in (keys, values)
            )
            for seen in range(len(keys) - q_len + 1, len(keys) + 1):
                scores = own_keys[:, :seen] @ query[at, :, :, None] / np.sqrt(heads.head_dim)
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                weights /= weights.sum(axis=1, keepdims=True)
                out[at] = (weights * own_values[:, :seen]).sum(axis=1)
                at += 1
        return out
