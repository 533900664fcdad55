"""Paged attention in plain torch, on any device, out of the very arrays that FlashInfer gets.

KV heads are never repeated: the query heads of a group are further queries (decode) or heads of a broadcast
KV head (prefill). Torch's kernels keep their sums in float32, for float64 in float64.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from runtime.attention.base import PlannedBackend
from runtime.attention.metadata import IndexArray, StepMetadata

QUERY_BLOCK: Final = 256
"""Queries of one kernel call behind a cached prefix: keys that all of them ignore are not read."""

LEAST_FILL: Final = 0.75
"""Rows decode together where the shortest fills this share of the pages of the longest."""

CPU_GROUP_BYTES: Final = 4 * 2**20
GROUP_BYTES: Final = 256 * 2**20
"""What the keys gathered for one group of decoding rows may take; a row alone may take more.

On a CPU they stay in its caches that way: larger groups took half as long again (see the log of `bench`).
"""


class DecodeGroup(NamedTuple):
    """Rows of one query token each that go together, padded to the longest.

    Attributes:
        tokens: Their query tokens, int64 of shape [rows].
        pages: Their pages, padded with a page of the row itself, int32 of shape [rows x width].
        padding: Gathered slots that belong to no token of the row, int64.
        mask: 0 for tokens of the row, -inf for padding, [rows, 1, 1, max_len]; `None` without padding.
        max_len: Tokens of the longest row.
    """

    tokens: Tensor
    pages: Tensor
    padding: Tensor
    mask: Tensor | None
    max_len: int


class PrefillRow(NamedTuple):
    """A row of several query tokens.

    Attributes:
        start: Its first query token.
        stop: Behind its last.
        pages: Its pages, int32.
        kv_len: Its tokens.
    """

    start: int
    stop: int
    pages: Tensor
    kv_len: int


class TorchBackend(PlannedBackend):
    """See `AttentionBackend`.

    Decoding rows of like length are gathered and attend in one kernel call; a row of several queries attends
    alone, in blocks of queries where it has a cached prefix. Memory beyond the result is what one such group
    or row gathers, and a mask of `QUERY_BLOCK` queries. What is gathered goes into memory that is kept from
    call to call, because fresh memory costs the system several times the copy.
    """

    _scratch: tuple[Tensor, Tensor] | None = None

    def _plan(self, metadata: StepMetadata) -> None:
        q_lens = metadata.q_lens
        self._groups = [self._group(metadata, rows) for rows in self._alike(metadata, q_lens == 1)]
        self._prefills = [self._prefill(metadata, row) for row in np.flatnonzero(q_lens > 1).tolist()]
        pages = [*(group.pages for group in self._groups), *(row.pages for row in self._prefills)]
        self._make_room(max(map(len, pages)))
        behind = [row.kv_len for row in self._prefills if row.kv_len > row.stop - row.start]
        self._mask = self._band(max(behind)) if behind else None

    def _make_room(self, num_pages: int) -> None:
        """Have scratch for K and V of so many pages."""
        if self._scratch is None or len(self._scratch[0]) < num_pages:
            heads, room = self.heads, num_pages + num_pages // 4
            shape = (room, self.page_size, heads.num_kv_heads, heads.head_dim)
            with torch.inference_mode(mode=False):  # so that it can be written outside of that mode, too
                keys, values = (torch.empty(shape, dtype=self.dtype, device=self.device) for _ in range(2))
            self._scratch = keys, values

    def _alike(self, metadata: StepMetadata, decodes: npt.NDArray[np.bool_]) -> Iterator[IndexArray]:
        """Decoding rows in groups of like length, longest first. O(B log B)."""
        decoding = decodes.nonzero()[0]
        if len(decoding) == 1:
            yield decoding.astype(np.int32)
            return
        counts = np.diff(metadata.kv_indptr)
        rows: IndexArray = decoding[np.argsort(-counts[decoding], kind="stable")].astype(np.int32)
        ordered = counts[rows]
        page_bytes = self.page_size * self.heads.num_kv_heads * self.heads.head_dim * self.dtype.itemsize
        group_bytes = CPU_GROUP_BYTES if self.device.type == "cpu" else GROUP_BYTES
        at = 0
        while at < len(rows):
            width = int(ordered[at])
            alike = at + int(np.count_nonzero(ordered[at:] >= LEAST_FILL * width))
            stop = min(alike, at + max(1, group_bytes // (width * page_bytes)))
            yield rows[at:stop]
            at = stop

    def _group(self, metadata: StepMetadata, rows: IndexArray) -> DecodeGroup:
        if len(rows) == 1:
            return self._lone(metadata, int(rows[0]))
        firsts, kv_lens = metadata.kv_indptr[rows], metadata.kv_lens[rows]
        counts = metadata.kv_indptr[rows + 1] - firsts
        width, max_len = int(counts.max()), int(kv_lens.max())
        columns = np.minimum(np.arange(width, dtype=np.int32), counts[:, None] - 1)
        pages = metadata.kv_indices[firsts[:, None] + columns]
        spare = np.arange(width * self.page_size, dtype=np.int32) >= kv_lens[:, None]
        mask = None
        if spare[:, :max_len].any():
            hidden = torch.from_numpy(spare[:, :max_len]).to(self.device)
            mask = torch.zeros(hidden.shape, dtype=self.dtype, device=self.device)
            mask = mask.masked_fill_(hidden, float("-inf"))[:, None, None]
        return DecodeGroup(
            tokens=self._here(metadata.qo_indptr[rows].astype(np.int64)),
            pages=self._here(pages.reshape(-1)),
            padding=self._here(np.flatnonzero(spare)),
            mask=mask,
            max_len=max_len,
        )

    def _lone(self, metadata: StepMetadata, row: int) -> DecodeGroup:
        """A row without company: what `_group` makes of it, in fewer operations."""
        pages = metadata.kv_indices[metadata.kv_indptr[row] : metadata.kv_indptr[row + 1]]
        kv_len = int(metadata.kv_lens[row])
        return DecodeGroup(
            tokens=self._here(metadata.qo_indptr[row : row + 1].astype(np.int64)),
            pages=self._here(pages),
            padding=self._here(np.arange(kv_len, len(pages) * self.page_size)),
            mask=None,
            max_len=kv_len,
        )

    def _prefill(self, metadata: StepMetadata, row: int) -> PrefillRow:
        pages = metadata.kv_indices[metadata.kv_indptr[row] : metadata.kv_indptr[row + 1]]
        return PrefillRow(
            start=int(metadata.qo_indptr[row]),
            stop=int(metadata.qo_indptr[row + 1]),
            pages=self._here(pages),
            kv_len=int(metadata.kv_lens[row]),
        )

    def _here(self, array: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _band(self, max_len: int) -> Tensor:
        """Causal mask of the last `QUERY_BLOCK` queries of `max_len` tokens; others are its lower right."""
        mask = torch.full((QUERY_BLOCK, max_len), float("-inf"), dtype=self.dtype, device=self.device)
        return mask.triu_(max_len - QUERY_BLOCK + 1)

    def _run(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        for group in self._groups:
            self._decode(group, query, *self._gather(group.pages, keys, values), out)
        for row in self._prefills:
            own_keys, own_values = (each[: row.kv_len] for each in self._gather(row.pages, keys, values))
            queries, result = query[row.start : row.stop], out[row.start : row.stop]
            if row.kv_len == len(queries):
                self._attend(queries, own_keys, own_values, None, result)
            else:
                self._behind_prefix(queries, own_keys, own_values, result)
        return out

    def _gather(self, pages: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """K and V of the slots of pages, [slots, num_kv_heads, head_dim], until the next call."""
        assert self._scratch is not None
        gathered_keys, gathered_values = (
            torch.index_select(cache, 0, pages, out=room[: len(pages)]).flatten(0, 1)
            for cache, room in zip((keys, values), self._scratch, strict=True)
        )
        return gathered_keys, gathered_values

    def _decode(self, group: DecodeGroup, query: Tensor, keys: Tensor, values: Tensor, out: Tensor) -> None:
        """A group whose K and V are gathered, padding included."""
        num_rows, heads = len(group.tokens), self.heads
        queries = query.index_select(0, group.tokens)
        result = scaled_dot_product_attention(
            queries.view(num_rows, heads.num_kv_heads, heads.group_size, heads.head_dim),
            self._by_row(group, keys),
            self._by_row(group, values),
            attn_mask=group.mask,
            scale=self.scale,
        )
        out.index_copy_(0, group.tokens, result.reshape(queries.shape))

    def _by_row(self, group: DecodeGroup, gathered: Tensor) -> Tensor:
        """K or V of a group, [rows, num_kv_heads, max_len, head_dim], zeros where it is padded."""
        # 0 x NaN is NaN: a weight of zero does not hide what unwritten slots hold
        gathered.index_fill_(0, group.padding, 0)
        by_row = gathered.view(len(group.tokens), -1, self.heads.num_kv_heads, self.heads.head_dim)
        return by_row[:, : group.max_len].transpose(1, 2)

    def _behind_prefix(self, query: Tensor, keys: Tensor, values: Tensor, out: Tensor) -> None:
        """A row with more tokens than queries, block by block."""
        assert self._mask is not None
        num_before = len(keys) - len(query)
        for start in range(0, len(query), QUERY_BLOCK):
            stop = min(start + QUERY_BLOCK, len(query))
            seen = num_before + stop
            mask = self._mask[-(stop - start) :, self._mask.shape[1] - seen :]
            if mask.device.type != "cpu":
                mask = mask.contiguous()  # kernels there read masks in aligned vectors
            self._attend(query[start:stop], keys[:seen], values[:seen], mask, out[start:stop])

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, out: Tensor) -> None:
        """One row or block, causal from the first token on where there is no mask."""
        heads = self.heads
        grouped = query.view(-1, heads.num_kv_heads, heads.group_size, heads.head_dim).permute(1, 2, 0, 3)
        shared = (heads.num_kv_heads, heads.group_size, len(keys), heads.head_dim)
        result = scaled_dot_product_attention(
            grouped,
            keys.transpose(0, 1).unsqueeze(1).expand(shared),
            values.transpose(0, 1).unsqueeze(1).expand(shared),
            attn_mask=mask,
            is_causal=mask is None,
            scale=self.scale,
        )
        out.copy_(result.permute(2, 0, 1, 3).flatten(1, 2))
