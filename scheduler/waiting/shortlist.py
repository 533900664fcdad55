"""A few of those who wait, among whom the next is found without looking at all."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy.typing as npt


class Shortlist(Protocol):
    """Is told what happens to rows of `RequestColumns`, so that it can say which comes first."""

    def changed(self, numbers: Sequence[int], rows: Sequence[int]) -> None:
        """Requests came, or their keys changed; the rows already hold what is true now."""
        ...

    def removed(self, number: int) -> None:
        """A request waits no longer."""
        ...

    def forget(self) -> None:
        """So many keys changed that it is cheaper to look at all once more."""
        ...


def high_bar(values: npt.NDArray[Any], size: int) -> Any:
    """A value that at least `size` of more than 2 * `size` values reach, and not many more exceed.

    The values are dealt into twice as many classes as that, and it is the lowest of the best of half of them.
    """
    highest = values[: len(values) // (2 * size) * 2 * size].reshape(-1, 2 * size).max(axis=0)
    highest.partition(size)
    return highest[size]
