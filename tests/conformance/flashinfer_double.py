"""A stand-in for the package flashinfer on the CPU.

It takes what the real one takes, and refuses what that would answer with a wrong result or a read outside of
its memory.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def require_index(name: str, array: Tensor, length: int) -> list[int]:
    assert array.dtype == torch.int32, f"{name} is {array.dtype}"
    assert array.device.type == "cpu", f"{name} is on {array.device}"
    assert array.is_contiguous(), f"{name} has strides"
    assert array.shape == (length,), f"{name} has shape {list(array.shape)}, not [{length}]"
    return array.tolist()


def attend(
    q: Tensor,
    cache: tuple[Tensor, Tensor],
    rows: list[tuple[slice, list[int], int]],
    out: Tensor,
    *,
    scale: float,
    causal: bool,
) -> Tensor:
    """Rows of (query tokens, pages, tokens) in float32; returns the logarithms of the sums, to base 2."""
    group_size = q.shape[1] // cache[0].shape[2]
    lse = torch.empty(q.shape[:2])
    for tokens, pages, kv_len in rows:
        keys, values = (
            each[pages].flatten(0, 1)[:kv_len].float().repeat_interleave(group_size, 1) for each in cache
        )
        num_queries = tokens.stop - tokens.start
        scores = torch.einsum("qhd,thd->qht", q[tokens].float(), keys) * scale
        if causal:
            position = torch.arange(num_queries)[:, None, None] + kv_len - num_queries
            scores[(torch.arange(kv_len) > position).expand_as(scores)] = float("-inf")
        out[tokens] = torch.einsum("qht,thd->qhd", scores.softmax(-1), values).to(out.dtype)
        lse[tokens] = scores.logsumexp(-1) / torch.log(torch.tensor(2.0))
    return lse


def merge_state_in_place(v: Tensor, s: Tensor, v_other: Tensor, s_other: Tensor) -> None:
    assert v.shape == v_other.shape
    assert s.shape == s_other.shape == v.shape[:2]
    assert s.dtype == s_other.dtype == torch.float32
    total = torch.logaddexp2(s, s_other)
    own, other = ((each - total).exp2()[:, :, None] for each in (s, s_other))
    v.copy_((v.float() * own + v_other.float() * other).to(v.dtype))
    s.copy_(total)


class Wrapper:
    """Keeps what was planned, and attends row by row in float32."""

    calls: list[Call]
    kind: str

    def __init__(self, workspace: Tensor, kv_layout: str, *, backend: str, **options: Any) -> None:
        assert workspace.dtype == torch.uint8
        assert kv_layout == "NHD"
        self.calls.append((type(self).__name__, (workspace, kv_layout), {"backend": backend, **options}))
        self.workspace = workspace
        self.rows: list[tuple[slice, list[int], int]] = []

    def _plan(
        self,
        qo_indptr: list[int],
        kv_indptr: Tensor,
        kv_indices: Tensor,
        last_page_len: Tensor,
        heads: tuple[int, int, int],
        page_size: int,
        *,
        causal: bool,
        seq_lens: Tensor,
        pos_encoding_mode: str,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        num_rows = len(qo_indptr) - 1
        assert num_rows, "an empty batch divides by zero"
        assert qo_indptr[0] == 0
        assert pos_encoding_mode == "NONE"
        assert q_data_type == kv_data_type
        assert heads[2] in (64, 128, 256)
        indptr = require_index("kv_indptr", kv_indptr, num_rows + 1)
        indices = require_index("kv_indices", kv_indices, indptr[-1])
        last = require_index("last_page_len", last_page_len, num_rows)
        lens = require_index("seq_lens", seq_lens, num_rows)
        assert indptr[0] == 0
        self.heads, self.page_size, self.causal = heads, page_size, causal
        self.scale, self.dtype, self.num_tokens = sm_scale, q_data_type, qo_indptr[-1]
        self.rows = []
        for row in range(num_rows):
            pages, tokens = indices[indptr[row] : indptr[row + 1]], slice(*qo_indptr[row : row + 2])
            assert 1 <= last[row] <= page_size
            assert tokens.stop > tokens.start
            assert lens[row] == (len(pages) - 1) * page_size + last[row]
            assert not causal or lens[row] >= tokens.stop - tokens.start
            self.rows.append((tokens, pages, lens[row]))

    def run(
        self, q: Tensor, paged_kv_cache: tuple[Tensor, Tensor], *, out: Tensor, return_lse: bool = False
    ) -> Any:
        self.calls.append((f"{self.kind}.run", (q, paged_kv_cache), {"out": out, "return_lse": return_lse}))
        num_qo, num_kv, head_dim = self.heads
        assert isinstance(paged_kv_cache, tuple), "a list is no cache"
        keys, values = paged_kv_cache
        assert keys.stride() == values.stride()
        assert keys.shape[1:] == (self.page_size, num_kv, head_dim)
        assert q.shape == out.shape == (self.num_tokens, num_qo, head_dim)
        assert q.dtype == keys.dtype == self.dtype
        assert q.stride(-1) == 1
        assert out.is_contiguous()
        lse = attend(q, paged_kv_cache, self.rows, out, scale=self.scale, causal=self.causal)
        return (out, lse) if return_lse else out


class BatchPrefillWithPagedKVCacheWrapper(Wrapper):
    kind = "prefill"

    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        **settings: Any,
    ) -> None:
        kv = paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len
        heads = num_qo_heads, num_kv_heads, head_dim_qk
        self.calls.append(("prefill.plan", (qo_indptr, *kv, *heads, page_size), settings))
        tokens = require_index("qo_indptr", qo_indptr, len(paged_kv_indptr))
        self._plan(tokens, *kv, heads, page_size, **settings)


class BatchDecodeWithPagedKVCacheWrapper(Wrapper):
    kind = "decode"

    def plan(
        self,
        indptr: Tensor,
        indices: Tensor,
        last_page_len: Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        **settings: Any,
    ) -> None:
        kv = indptr, indices, last_page_len
        heads = num_qo_heads, num_kv_heads, head_dim
        self.calls.append(("decode.plan", (*kv, *heads, page_size), settings))
        self._plan(list(range(len(indptr))), *kv, heads, page_size, causal=True, **settings)


def flashinfer_double() -> ModuleType:
    """A module of its own, whose `calls` are those of its wrappers."""
    module = ModuleType("flashinfer")
    calls: list[Call] = []
    for kind in (BatchPrefillWithPagedKVCacheWrapper, BatchDecodeWithPagedKVCacheWrapper):
        setattr(module, kind.__name__, type(kind.__name__, (kind,), {"calls": calls}))

    def merge(*states: Tensor) -> None:
        calls.append(("merge_state_in_place", states, {}))
        merge_state_in_place(*states)

    module.calls = calls
    module.merge_state_in_place = merge
    return module
