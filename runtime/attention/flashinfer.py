"""Attention by FlashInfer on CUDA. The package is imported when the first backend is made."""

import importlib
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from radixcache.errors import InvalidConfig
from runtime.attention.base import HeadLayout, PlannedBackend
from runtime.attention.metadata import IndexArray, StepMetadata
from runtime.errors import BackendUnavailable

HEAD_DIMS: Final = (64, 128, 256)
"""What the kernels are built for. They do not refuse others, they read outside of their memory."""

DTYPES: Final = (torch.float16, torch.bfloat16)

WORKSPACE_BYTES: Final = 256 * 2**20
"""For partial results of long rows: releases up to 0.7.0 want 17.3 MB times the group size on 132 SMs."""

LEAST_SHARED_PAGES: Final = 2
"""A shared prefix shorter than this is read by each row on its own."""

_KERNEL: Final = "fa2"
"""Named, because the package would else choose by batch, and compile a second kernel, which takes minutes."""

_MERGE_THREADS: Final = 1024
_MERGE_BYTES: Final = 16
_WARP: Final = 32

Split = Literal["none", "decode", "prefix"]
Part = tuple[slice, Any]


class FlashInferBackend(PlannedBackend):
    """See `AttentionBackend`. One kernel module serves prefill, decode and shared prefixes.

    Index arrays stay on the host, where `plan` reads them without waiting for the device. It writes its
    schedule into one pinned buffer of the wrapper and copies it asynchronously, so the next `plan` waits
    until that copy was made.

    Args:
        heads: Heads of a layer; `head_dim` is one of `HEAD_DIMS`.
        page_size: Tokens of a page, >= 1.
        dtype: One of `DTYPES`.
        device: A CUDA device.
        split: "none": all rows in one call. "decode": leading rows of one query token each in a call of
            their own, so that their tile does not depend on the prefills behind them. "prefix": whole pages
            that all rows begin with are read once and the two parts merged; results differ from "none" in
            the last bits.

    Raises:
        InvalidConfig: A head dimension, dtype or device that the kernels do not serve.
        BackendUnavailable: The package is not installed.
    """

    device_types: tuple[str, ...] = ("cuda",)

    def __init__(
        self,
        heads: HeadLayout,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device | str,
        *,
        split: Split = "none",
    ) -> None:
        super().__init__(heads, page_size, dtype, device)
        if heads.head_dim not in HEAD_DIMS:
            raise InvalidConfig(f"head_dim is one of {HEAD_DIMS} with FlashInfer, got {heads.head_dim}")
        if dtype not in DTYPES:
            raise InvalidConfig(f"FlashInfer serves {', '.join(map(str, DTYPES))}, got {dtype}")
        if self.device.type not in self.device_types:
            raise InvalidConfig(f"FlashInfer runs on {', '.join(self.device_types)}, got {self.device}")
        self.split = split
        self._library = _library()
        workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=self.device)
        self._whole = self._library.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend=_KERNEL)
        self._other: Any = None
        if split == "decode":
            self._other = self._library.BatchDecodeWithPagedKVCacheWrapper(
                workspace, "NHD", use_tensor_cores=True, backend=_KERNEL
            )
        elif split == "prefix":
            self._other = self._library.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD", backend=_KERNEL)
        self._planned: torch.cuda.Event | None = None
        if self.device.type == "cuda":
            self._planned = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._parts: list[Part] = []
        self._merges = False

    @property
    def merges_prefix(self) -> bool:
        """Whether the planned step reads a shared prefix once."""
        return self._merges

    def _plan(self, metadata: StepMetadata) -> None:
        if self._planned is not None:
            self._planned.synchronize()
        self._merges = False
        if self.split == "decode":
            self._plan_decodes_apart(metadata)
        elif self.split == "prefix" and (num_pages := self._shared_pages(metadata)):
            self._plan_prefix_apart(metadata, num_pages)
        else:
            self._parts = [self._plan_prefill(self._whole, _Rows.of(metadata), causal=True)]
        if self._planned is not None:
            self._planned.record()

    def _plan_prefill(self, wrapper: Any, rows: "_Rows", *, causal: bool) -> Part:
        heads = self.heads
        wrapper.plan(
            *(torch.from_numpy(array) for array in (rows.qo_indptr, *rows.kv)),
            heads.num_qo_heads,
            heads.num_kv_heads,
            heads.head_dim,
            self.page_size,
            causal=causal,
            seq_lens=torch.from_numpy(rows.kv_lens),
            **self._settings(),
        )
        return slice(rows.first_token, rows.first_token + int(rows.qo_indptr[-1])), wrapper

    def _plan_decode(self, rows: "_Rows") -> Part:
        heads = self.heads
        self._other.plan(
            *(torch.from_numpy(array) for array in rows.kv),
            heads.num_qo_heads,
            heads.num_kv_heads,
            heads.head_dim,
            self.page_size,
            seq_lens=torch.from_numpy(rows.kv_lens),
            **self._settings(),
        )
        return slice(rows.first_token, rows.first_token + len(rows.kv_lens)), self._other

    def _settings(self) -> dict[str, object]:
        return {
            "pos_encoding_mode": "NONE",
            "sm_scale": self.scale,
            "q_data_type": self.dtype,
            "kv_data_type": self.dtype,
        }

    def _plan_decodes_apart(self, metadata: StepMetadata) -> None:
        longer = metadata.q_lens > 1
        num_decodes = int(longer.argmax()) if longer.any() else metadata.num_rows
        self._parts = []
        if num_decodes:
            self._parts.append(self._plan_decode(_Rows.of(metadata, stop=num_decodes)))
        if num_decodes < metadata.num_rows:
            rest = _Rows.of(metadata, start=num_decodes)
            self._parts.append(self._plan_prefill(self._whole, rest, causal=True))

    def _shared_pages(self, metadata: StepMetadata) -> int:
        """Pages that all rows begin with and no query token lies in; 0 where merging is not worth it."""
        if metadata.num_rows < 2 or not self._can_merge():
            return 0
        before_queries = metadata.kv_lens - metadata.q_lens
        longest = int(before_queries.min()) // self.page_size
        firsts = metadata.kv_indptr[:-1]
        if longest < LEAST_SHARED_PAGES or np.ptp(metadata.kv_indices[firsts]):
            return 0
        pages = metadata.kv_indices[firsts[:, None] + np.arange(longest, dtype=np.int32)]
        differ = (pages != pages[0]).any(axis=0)
        num_pages = int(differ.argmax()) if differ.any() else longest
        return num_pages if num_pages >= LEAST_SHARED_PAGES else 0

    def _can_merge(self) -> bool:
        """Whether the kernel that merges can be launched: a block has a thread for each vector of a token."""
        width = max(_MERGE_BYTES // self.dtype.itemsize, self.heads.head_dim // _WARP)
        return self.heads.head_dim // width * self.heads.num_qo_heads <= _MERGE_THREADS

    def _plan_prefix_apart(self, metadata: StepMetadata, num_pages: int) -> None:
        num_shared = num_pages * self.page_size
        prefix = _Rows(
            first_token=0,
            qo_indptr=np.array([0, metadata.num_tokens], dtype=np.int32),
            kv=(
                np.array([0, num_pages], dtype=np.int32),
                metadata.kv_indices[:num_pages],
                np.array([self.page_size], dtype=np.int32),
            ),
            kv_lens=np.array([num_shared], dtype=np.int32),
        )
        kept = np.ones(len(metadata.kv_indices), dtype=np.bool_)
        kept[(metadata.kv_indptr[:-1, None] + np.arange(num_pages, dtype=np.int32)).reshape(-1)] = False
        skipped = np.arange(metadata.num_rows + 1, dtype=np.int32) * np.int32(num_pages)
        own = _Rows(
            first_token=0,
            qo_indptr=metadata.qo_indptr,
            kv=(metadata.kv_indptr - skipped, metadata.kv_indices[kept], metadata.kv_last_page_len),
            kv_lens=metadata.kv_lens - np.int32(num_shared),
        )
        self._parts = [
            self._plan_prefill(self._whole, own, causal=True),
            self._plan_prefill(self._other, prefix, causal=False),
        ]
        self._merges = True

    def _run(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        if not self._merges:
            for tokens, wrapper in self._parts:
                wrapper.run(query[tokens], (keys, values), out=out[tokens])
            return out
        (_, own), (_, prefix) = self._parts
        shared = torch.empty_like(out)
        _, lse = own.run(query, (keys, values), out=out, return_lse=True)
        _, shared_lse = prefix.run(query, (keys, values), out=shared, return_lse=True)
        self._library.merge_state_in_place(out, lse, shared, shared_lse)
        return out


class _Rows(NamedTuple):
    """Rows for one wrapper: its arrays begin with 0 as if there were no others."""

    first_token: int
    qo_indptr: IndexArray
    kv: tuple[IndexArray, IndexArray, IndexArray]
    kv_lens: IndexArray

    @classmethod
    def of(cls, metadata: StepMetadata, start: int = 0, stop: int | None = None) -> "_Rows":
        """The rows [start, stop) of a step."""
        stop = metadata.num_rows if stop is None else stop
        tokens = metadata.qo_indptr[start : stop + 1]
        pages = metadata.kv_indptr[start : stop + 1]
        return cls(
            first_token=int(tokens[0]),
            qo_indptr=tokens - tokens[0],
            kv=(
                pages - pages[0],
                metadata.kv_indices[pages[0] : pages[-1]],
                metadata.kv_last_page_len[start:stop],
            ),
            kv_lens=metadata.kv_lens[start:stop],
        )


def _library() -> Any:
    try:
        return importlib.import_module("flashinfer")
    except ImportError as error:
        raise BackendUnavailable(
            f"the attention backend 'flashinfer' needs the package flashinfer-python: {error}. "
            "Install radixcache[flashinfer], or choose the backend 'torch'"
        ) from error
