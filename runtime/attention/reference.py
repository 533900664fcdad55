"""The oracle: dense attention in float64, one row at a time, as the definition reads."""

import torch
from torch import Tensor

from runtime.attention.base import PlannedBackend
from runtime.attention.metadata import StepMetadata


class ReferenceBackend(PlannedBackend):
    """See `AttentionBackend`. For tests: O(query tokens x tokens) memory a row, and no speed."""

    def _plan(self, metadata: StepMetadata) -> None:
        self._rows = [
            (
                slice(int(metadata.qo_indptr[row]), int(metadata.qo_indptr[row + 1])),
                torch.from_numpy(metadata.kv_indices[metadata.kv_indptr[row] : metadata.kv_indptr[row + 1]]),
                int(metadata.kv_lens[row]),
            )
            for row in range(metadata.num_rows)
        ]

    def _run(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        for tokens, pages, kv_len in self._rows:
            index = pages.to(keys.device)
            out[tokens] = self._row(
                query[tokens].double(),
                keys[index].flatten(0, 1)[:kv_len].double(),
                values[index].flatten(0, 1)[:kv_len].double(),
            ).to(query.dtype)
        return out

    def _row(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """[queries, num_qo_heads, head_dim] of one row whose KV is [tokens, num_kv_heads, head_dim]."""
        num_queries, num_tokens = len(query), len(keys)
        keys, values = (each.repeat_interleave(self.heads.group_size, dim=1) for each in (keys, values))
        scores = torch.einsum("qhd,thd->hqt", query, keys) * self.scale
        ones = torch.ones(num_queries, num_tokens, dtype=torch.bool, device=query.device)
        seen = ones.tril(num_tokens - num_queries)
        weights = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1)
        return torch.einsum("hqt,thd->qhd", weights, values)
