"""A few of those who wait, among whom the next is found without looking at all."""

from typing import Any, Protocol

import numpy.typing as npt

from scheduler.request import Request


class Shortlist(Protocol):
    """Is told what happens to the requests in `RequestColumns`, so that it can say which comes first."""

    def changed(self, request: Request, key: float) -> None:
        """A request came, or its key changed; the columns know of it once they were settled."""
        ...

    def removed(self, request: Request) -> None:
        """A request waits no longer."""
        ...

    def forget(self) -> None:
        """So many keys changed that it is cheaper to look at all once more."""
        ...


def high_bar(values: npt.NDArray[Any], size: int) -> Any:
    """A value that at least `size` of at least 2 * `size` values reach, and mostly few more exceed.

    The values are dealt into an odd number of classes, so that what comes again and again does not come into
    the same; half of these have somebody who is as high.
    """
    classes = 2 * size - 1
    highest = values[: len(values) // classes * classes].reshape(-1, classes).max(axis=0)
    highest.partition(size - 1)
    return highest[size - 1]
