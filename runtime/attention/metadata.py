"""What attention kernels read of a step: int32 arrays on the host, in the layout of FlashInfer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

import radixcache
from radixcache.arguments import as_integer
from runtime.errors import MetadataError
from scheduler import Row, StepPlan

IndexArray = npt.NDArray[np.int32]

_SLOT_END: Final = 2**31

_Held = tuple[int, int, int]
"""Of a row of the step before: tokens published, pages, and where its pages begin in `kv_indices`."""


@dataclass(frozen=True, slots=True, eq=False)
class StepMetadata:
    """Rows of one step for a paged attention kernel. B rows, nnz query tokens.

    A row's queries are its last tokens: its KV contains theirs. The arrays are its own, and nobody writes to
    them: the next step takes over what did not change.

    Attributes:
        qo_indptr: Query tokens before each row, and in all, int32 of shape [B + 1].
        kv_indptr: Pages before each row, and in all, int32 of shape [B + 1].
        kv_indices: Page ids, row by row in position order, int32 of shape [kv_indptr[-1]].
        kv_last_page_len: Tokens in each row's last page, 1 to `page_size`, int32 of shape [B].
        kv_lens: Tokens with KV once the step is written, int32 of shape [B].
        slot_mapping: Where the KV of each query token goes, int32 of shape [nnz].
        positions: Position of each query token in its sequence, int32 of shape [nnz].
        page_size: Tokens of a page.
    """

    qo_indptr: IndexArray
    kv_indptr: IndexArray
    kv_indices: IndexArray
    kv_last_page_len: IndexArray
    kv_lens: IndexArray
    slot_mapping: IndexArray
    positions: IndexArray
    page_size: int

    @classmethod
    def of(
        cls, pages: Sequence[IndexArray], starts: Sequence[int], extend_lens: Sequence[int], page_size: int
    ) -> Self:
        """The arrays of rows that compute `extend_lens` tokens on top of `starts`.

        Args:
            pages: Page ids of each row: just those that its `start + extend_len` tokens need.
            starts: Tokens with KV of each row, >= 0.
            extend_lens: Query tokens of each row, >= 1.
            page_size: Tokens of a page, >= 1.

        Raises:
            MetadataError: No row, a row without query tokens, with another number of pages than it needs, or
                with a slot that int32 does not hold.

        Complexity:
            O(pages + query tokens) in NumPy.
        """
        found = [len(each) for each in pages]
        needed = [-(-sum(row) // page_size) for row in zip(starts, extend_lens, strict=True)]
        if found != needed:
            raise MetadataError(f"rows have {found} pages, their tokens need {needed}")
        kv_indices = np.concatenate(pages) if pages else np.zeros(0, dtype=np.int32)
        return cls._of_indices(kv_indices, starts, extend_lens, page_size)

    @classmethod
    def _of_indices(
        cls, kv_indices: IndexArray, starts: Sequence[int], extend_lens: Sequence[int], page_size: int
    ) -> Self:
        """See `of`, with the pages of all rows in one array."""
        first = np.array(starts, dtype=np.int32)
        q_lens = np.array(extend_lens, dtype=np.int32)
        _require_tokens(first, q_lens)
        kv_lens = first + q_lens
        counts = -(-kv_lens // page_size)
        qo_indptr, kv_indptr = _indptr(q_lens), _indptr(counts)
        num_tokens = int(qo_indptr[-1])
        kv_last_page_len = kv_lens - (counts - 1) * np.int32(page_size)
        if num_tokens == len(q_lens):  # only the last token of each row, as in most steps
            positions = first
            written, offsets = kv_indices[kv_indptr[1:] - 1], kv_last_page_len - 1
        else:
            positions = np.arange(num_tokens, dtype=np.int32)
            positions += np.repeat(first - qo_indptr[:-1], q_lens)
            in_row, offsets = np.divmod(positions, np.int32(page_size))
            written = kv_indices[in_row + np.repeat(kv_indptr[:-1], q_lens)]
        if (int(written.max()) + 1) * page_size > _SLOT_END:
            raise MetadataError(f"int32 cannot hold the slots of page {written.max()} of {page_size} tokens")
        return cls(
            qo_indptr=qo_indptr,
            kv_indptr=kv_indptr,
            kv_indices=kv_indices,
            kv_last_page_len=kv_last_page_len,
            kv_lens=kv_lens,
            slot_mapping=written * np.int32(page_size) + offsets,
            positions=positions,
            page_size=page_size,
        )

    @property
    def num_rows(self) -> int:
        """Rows."""
        return len(self.kv_lens)

    @property
    def num_tokens(self) -> int:
        """Query tokens of all rows."""
        return int(self.qo_indptr[-1])

    @property
    def q_lens(self) -> IndexArray:
        """Query tokens of each row, int32 of shape [B]."""
        return _lengths(self.qo_indptr)

    def require_valid(self) -> None:
        """Refuse what a kernel would answer with a wrong result, or a read outside of its memory.

        Page ids are not looked at: their owner is the cache.

        Raises:
            MetadataError: An array is not int32 and contiguous or of a wrong length, there is no row, a row
                has no query tokens or more than tokens, or its pages do not match its tokens.

        Complexity:
            O(B).
        """
        num_rows = len(self.kv_lens)
        if not num_rows:
            raise MetadataError("a step needs at least one row")
        lengths = {
            "qo_indptr": num_rows + 1,
            "kv_indptr": num_rows + 1,
            "kv_last_page_len": num_rows,
            "kv_lens": num_rows,
            "kv_indices": int(self.kv_indptr[-1]),
            "slot_mapping": int(self.qo_indptr[-1]),
            "positions": int(self.qo_indptr[-1]),
        }
        for name, length in lengths.items():
            array = getattr(self, name)
            if array.dtype != np.int32 or array.shape != (length,) or not array.flags.c_contiguous:
                raise MetadataError(
                    f"{name} is a contiguous int32 array of shape [{length}], "
                    f"got {array.dtype} of shape {list(array.shape)}"
                )
        q_lens = self.q_lens
        _require_tokens(self.kv_lens - q_lens, q_lens)
        last, counts = self.kv_last_page_len, _lengths(self.kv_indptr)
        if self.qo_indptr[0] or self.kv_indptr[0]:
            raise MetadataError(f"indptr begins with 0, got {self.qo_indptr[0]} and {self.kv_indptr[0]}")
        if last.min() < 1 or last.max() > self.page_size:
            raise MetadataError(f"kv_last_page_len is 1 to {self.page_size}, got {last.tolist()}")
        if ((counts - 1) * self.page_size + last != self.kv_lens).any():
            raise MetadataError(f"{counts.tolist()} pages do not hold {self.kv_lens.tolist()} tokens")


def rows_to_compute(plan: StepPlan) -> tuple[Row, ...]:
    """The rows of a plan that have something to compute, in its order.

    Left out are rows whose tokens were all brought by copies, and rows of requests that were aborted since
    the plan was made. Where none is left, the step is done once its copies are.
    """
    return tuple(row for row in plan.rows if row.extend_len and row.request.sequence is not None)


class MetadataBuilder:
    """Makes the metadata of one step after another, and keeps the page ids that did not change.

    Page ids of a sequence are read again only where it needs another number of pages, or where its published
    part grew: nothing else changes those that it handed out. The others come from the arrays of the step
    before, neighbours that stayed neighbours in one piece.

    Args:
        page_size: Tokens of a page, >= 1.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = as_integer("page_size", page_size)
        if self.page_size < 1:
            raise MetadataError(f"page_size is at least 1, got {page_size}")
        self._held: dict[radixcache.Sequence, _Held] = {}
        self._indices: IndexArray = np.zeros(0, dtype=np.int32)

    def build(self, rows: Sequence[Row]) -> StepMetadata:
        """The metadata of rows with something to compute, see `rows_to_compute`.

        Its arrays are fresh ones: whoever holds those of the step before may go on reading them.

        Raises:
            MetadataError: No row, a row without query tokens, of a request that holds nothing, with fewer
                pages than its tokens need, or with a slot that int32 does not hold. Nothing changed.

        Complexity:
            O(pages + query tokens) memcpy, and O(rows) steps.
        """
        if not rows:
            raise MetadataError("a step needs at least one row")
        requests, starts, extend_lens, _ = zip(*rows, strict=True)
        page_size, old, indices = self.page_size, self._held, self._indices
        held: dict[radixcache.Sequence, _Held] = {}
        pieces: list[IndexArray] = []
        begin = end = at = 0  # indices[begin:end] is the piece that grows
        for request, start, extend_len in zip(requests, starts, extend_lens, strict=True):
            sequence = request.sequence
            if sequence is None:
                raise MetadataError(f"request {request.request_id!r} holds no sequence: it does not run")
            published_len, count = sequence.published_len, -(-(start + extend_len) // page_size)
            entry = old.get(sequence)
            if entry is not None and entry[0] == published_len and entry[1] == count:
                first = entry[2]
                if first != end:
                    pieces.append(indices[begin:end])
                    begin = end = first
                end += count
            else:
                pieces.append(indices[begin:end])
                pieces.append(_first_pages(request.request_id, sequence, count))
                begin = end = 0
            held[sequence] = published_len, count, at
            at += count
        pieces.append(indices[begin:end])
        metadata = StepMetadata._of_indices(np.concatenate(pieces), starts, extend_lens, page_size)
        self._held, self._indices = held, metadata.kv_indices
        return metadata


def _first_pages(request_id: str, sequence: radixcache.Sequence, count: int) -> IndexArray:
    table = sequence.page_table
    if len(table) < count:
        raise MetadataError(f"request {request_id!r} needs {count} pages, {len(table)} are reserved")
    return table[:count]


def _indptr(counts: IndexArray) -> IndexArray:
    indptr = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def _lengths(indptr: IndexArray) -> IndexArray:
    # `np.diff` takes several times as long on arrays as short as these
    return indptr[1:] - indptr[:-1]


def _require_tokens(starts: IndexArray, q_lens: IndexArray) -> None:
    if not len(q_lens):
        raise MetadataError("a step needs at least one row")
    if q_lens.min() < 1:
        raise MetadataError(f"row {q_lens.argmin()} has {q_lens.min()} query tokens: leave it out")
    if starts.min() < 0:
        raise MetadataError(f"row {starts.argmin()} has fewer tokens than query tokens")
