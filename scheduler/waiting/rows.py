"""Columns of numbers with a row for everybody who waits, oldest first."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_SMALLEST = 4


class NumberedRows:
    """A row of values for each waiting request, found by its number.

    Numbers only rise, so whoever comes stands last. Whoever leaves becomes a gap with `settle`, with values
    that change nothing for those who look at whole columns; gaps are closed once they are more than a quarter
    of the rows.

    Args:
        columns: Type of each column, and what stands there in a gap.

    Complexity:
        `append` and `remove` O(1) amortised, `row_of` O(log waiting). Rows are at most 4/3 of those that
        wait, and some.
    """

    def __init__(self, columns: Sequence[tuple[npt.DTypeLike, float]]) -> None:
        self._blanks = [blank for _, blank in columns]
        self._numbers = np.empty(_SMALLEST, dtype=np.int64)
        self._is_taken = np.empty(_SMALLEST, dtype=np.bool_)
        self._columns: list[Array] = [np.empty(_SMALLEST, dtype=dtype) for dtype, _ in columns]
        self._num_rows = self._num_gaps = self._first = 0
        self._gone: list[int] = []

    def __len__(self) -> int:
        """Requests that have a row."""
        return self._num_rows - self._num_gaps - len(self._gone)

    def append(self, number: int, *values: float) -> int:
        """A row for a request whose number is larger than all others; returns which."""
        row = self._num_rows
        if row == len(self._numbers):
            self._numbers, self._is_taken = grown(self._numbers), grown(self._is_taken)
            self._columns = [grown(column) for column in self._columns]
        self._numbers[row], self._is_taken[row] = number, True
        for column, value in zip(self._columns, values, strict=True):
            column[row] = value
        self._num_rows += 1
        return row

    def remove(self, number: int) -> None:
        """A request waits no longer. Row numbers found before are void."""
        self._gone.append(number)
        if 4 * (self._num_gaps + len(self._gone)) > self._num_rows + _SMALLEST:
            self.close_gaps()

    def settle(self) -> None:
        """Make gaps of the rows of those who left."""
        if not self._gone:
            return
        rows = self.rows_of(self._gone)
        self._is_taken[rows] = False
        for column, blank in zip(self._columns, self._blanks, strict=True):
            column[rows] = blank
        self._num_gaps += len(self._gone)
        self._gone.clear()

    def close_gaps(self) -> None:
        """Move the rows together. Row numbers found before are void. O(rows) in NumPy."""
        self.settle()
        if not self._num_gaps:
            return
        taken = np.flatnonzero(self._is_taken[: self._num_rows])
        self._num_rows, self._num_gaps, self._first = len(taken), 0, 0
        size = len(taken) + len(taken) // 4 + _SMALLEST
        self._numbers = _chosen(self._numbers, taken, size)
        self._columns = [_chosen(column, taken, size) for column in self._columns]
        self._is_taken = np.ones(size, dtype=np.bool_)

    def row_of(self, number: int) -> int:
        """The row of a request that has one."""
        return int(self._numbers[: self._num_rows].searchsorted(number))

    def row_of_first(self, number: int) -> int:
        """The row of the request with the smallest number of all. O(1) amortised."""
        while self._numbers[self._first] != number:
            self._first += 1
        return self._first

    def rows_of(self, numbers: Sequence[int]) -> npt.NDArray[np.int64]:
        """The rows of requests; of the next that has one where a request has none."""
        return self._numbers[: self._num_rows].searchsorted(np.array(numbers, dtype=np.int64))

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The number of the request in each row, gaps included."""
        return self._numbers[: self._num_rows]

    def number_at(self, row: int) -> int:
        """The number of the request that has a row."""
        return int(self._numbers[row])

    def column(self, index: int) -> Array:
        """All rows of a column, gaps included, to be read or written; void with the next change."""
        return self._columns[index][: self._num_rows]


def grown(column: Array) -> Array:
    """A column with room for a quarter more."""
    more = np.empty(len(column) // 4 + _SMALLEST, dtype=column.dtype)
    return np.concatenate((column, more))


def _chosen(column: Array, rows: Array, size: int) -> Array:
    chosen = np.empty(size, dtype=column.dtype)
    column.take(rows, out=chosen[: len(rows)])
    return chosen
