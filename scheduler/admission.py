"""Whether one more request fits, with room for everybody to grow."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scheduler.expectation import Expectation
from scheduler.request import Request


def peak_pages(own_pages: npt.NDArray[np.int64], remaining: npt.NDArray[np.int64], page_size: int) -> int:
    """Pages that these requests will hold at the worst moment, if each ends when expected.

    When the k that last longest are left, each has grown by what the k-th still had to come:
    the largest, over k, of the sum of their pages + k * growth of the k-th.

    Args:
        own_pages: Pages each holds for itself alone, int64 of shape [n].
        remaining: Tokens that each will still get KV for, besides those pages, int64 of shape [n].
        page_size: Tokens a page holds.

    Complexity:
        O(n log n).

    Example:
        >>> peak_pages(np.array([4, 2]), np.array([16, 32]), 16)
        8
    """
    if not len(own_pages):
        return 0
    longest_first = np.argsort(-remaining, kind="stable")
    growth = -(-remaining[longest_first] // page_size)
    counts = np.arange(1, len(growth) + 1)
    return int((np.cumsum(own_pages[longest_first]) + counts * growth).max())


def own_pages(request: Request, page_size: int) -> int:
    """Pages for the known tokens of a request behind what it matched when it was admitted."""
    return -(-request.num_known // page_size) - request.own_from // page_size


def fits(
    running: Sequence[Request],
    candidate: Request,
    *,
    available: int,
    num_pages: int,
    page_size: int,
    lengths: Expectation,
) -> bool:
    """Whether `candidate` can run beside `running` without anybody running out of pages, as expected.

    Args:
        running: Requests that run.
        candidate: One that has matched and holds no page of its own yet.
        available: Free and evictable pages, after the candidate's match was locked.
        num_pages: Pages in the pool; stands in for an output limit where a request has none.
        page_size: Tokens a page holds.
        lengths: What is expected of outputs.
    """
    everybody = [*running, candidate]
    own = np.array([own_pages(request, page_size) for request in everybody], dtype=np.int64)
    held = sum(_held_pages(request, page_size) for request in running)
    last_token_has_no_kv = 1
    remaining = lengths.remaining(everybody, num_pages * page_size)
    growth = np.maximum(remaining - last_token_has_no_kv, 0)
    return peak_pages(own, growth, page_size) <= available + held


def _held_pages(request: Request, page_size: int) -> int:
    """Pages a running request holds now behind what it matched."""
    assert request.sequence is not None
    return (request.sequence.reserved_len - request.own_from) // page_size
