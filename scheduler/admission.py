"""Whether one more request fits, with room for everybody to grow."""

import numpy as np
import numpy.typing as npt

from radixcache import OutOfPages, PrefixCache, Sequence
from scheduler.expectation import Expectation
from scheduler.footprints import Footprints
from scheduler.request import Request, RequestState
from scheduler.running import Running


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
    growth = -(-remaining // page_size)
    longest_first = growth.argsort()[::-1]  # among equals the last counts, in whatever order they come
    peaks = growth[longest_first]
    peaks *= np.arange(1, len(peaks) + 1)
    peaks += own_pages[longest_first].cumsum()
    return int(peaks.max())


def fits(
    everybody: Footprints, *, available: int, num_pages: int, page_size: int, lengths: Expectation
) -> bool:
    """Whether all can run side by side without anybody running out of pages, as expected.

    Args:
        everybody: Requests that run, and one that has matched and holds no page of its own yet.
        available: Free and evictable pages, after that match was locked.
        num_pages: Pages in the pool; stands in for an output limit where a request has none.
        page_size: Tokens a page holds.
        lengths: What is expected of outputs.
    """
    own_pages, room = everybody.own_pages(page_size), available + everybody.held_pages(page_size)
    if own_pages.sum() > room:  # too many already, whatever comes
        return False
    last_token_has_no_kv = 1
    remaining = lengths.remaining(everybody, num_pages * page_size)
    growth = np.maximum(remaining - last_token_has_no_kv, 0)
    return peak_pages(own_pages, growth, page_size) <= room


class Admission:
    """Opens sequences for requests that fit, and leaves everything as it was for others.

    Args:
        cache: Finds prefixes and hands out pages.
        lengths: What is expected of outputs.
    """

    def __init__(self, cache: PrefixCache, lengths: Expectation) -> None:
        self._cache = cache
        self._lengths = lengths

    def open(self, request: Request, running: Running, most_tokens: int) -> tuple[Sequence, int] | None:
        """Open and reserve, or change nothing.

        Args:
            request: A request that waits.
            running: Those beside which it has to fit; the first always does.
            most_tokens: Tokens that may be computed in its first step.

        Returns:
            Its sequence and the tokens to compute of it in the step; `None` where it does not fit.
        """
        cache = self._cache
        sequence = cache.open(
            request.known_tokens(),
            request.namespace,
            read=request.read,
            write=request.write,
            resumed=request.state is RequestState.PREEMPTED,
            priority=request.priority,
            retain=request.retain,
        )
        request.own_from = sequence.matched_len
        extend_len = min(sequence.num_tokens - sequence.computed_len, most_tokens)
        try:
            fitting = not len(running) or self._fits(request, running)
            if fitting:
                sequence.reserve(extend_len)
        except OutOfPages:
            fitting = False
        except BaseException:
            sequence.abort()  # an observer or a policy raised: nobody else would end it
            raise
        if not fitting:
            sequence.abort()
            return None
        num_copied = sequence.computed_len - sequence.matched_len
        return sequence, max(0, extend_len - num_copied)

    def _fits(self, request: Request, running: Running) -> bool:
        cache = self._cache
        return fits(
            running.footprints(request),
            available=cache.pages.available,
            num_pages=cache.config.num_pages,
            page_size=cache.config.page_size,
            lengths=self._lengths,
        )
