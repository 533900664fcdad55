"""The hit rate of LRU at every capacity, from one pass.

Source:
    Stack distances: Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies",
    1970. Here a request looks up its whole path before it touches any of it, and touches from the tail to the
    root, so that page LRU keeps prefixes whole and stays a stack algorithm.

What is exact. `PrefixCache` with `eviction="lru"`, served one request after the other, each with `open`, one
`reserve` for all that it computes (prompt, and all but the last generated token), `advance`, `close`, finds
exactly these pages, request by request, at every capacity from the longest request on. What a request needs
beyond its path (a partial page, a second copy of a page that is not matched because it holds the
prompt's last token) is accounted for. One difference remains, in the `PageTrace.num_untouched` requests:
they add no page, and the real cache does not refresh their last page where it still was; here it is
refreshed. Requests that run at the same time are outside of this: they hold more pages at once.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from radixcache.errors import InvalidArgument
from runtime.cost import ModelShape
from runtime.lab.pages import Counts, PageTrace
from runtime.lab.slack import Slack, StackRun

_GIB = 2**30


@dataclass(frozen=True, kw_only=True, eq=False)
class CapacityCurve:
    """Hits of LRU as a function of the capacity.

    Hits come in runs: page j of run k is found at capacities of at least `needed[k] + j` pages.

    Attributes:
        page_size: Tokens a page.
        prompt_tokens: Tokens of all prompts.
        min_pages: Pages of the longest request: the curve begins there.
        ceiling_pages: Pages found without limit.
        num_requests: Requests.
        request: Whose hits a run is, int64, `[num_runs]`.
        needed: Capacity at which its first page is found, int64, `[num_runs]`. Unit: pages.
        count: Pages of the run, int64, `[num_runs]`.
    """

    page_size: int
    prompt_tokens: int
    min_pages: int
    ceiling_pages: int
    num_requests: int
    request: Counts
    needed: Counts
    count: Counts

    @property
    def min_capacity_tokens(self) -> int:
        """The least capacity that means anything: what the longest request needs."""
        return self.min_pages * self.page_size

    @property
    def full_capacity_tokens(self) -> int:
        """The least capacity at which nothing is missed that was ever cached."""
        return max(int((self.needed + self.count).max(initial=1)) - 1, self.min_pages) * self.page_size

    @property
    def ceiling_rate(self) -> float:
        """Hit rate without limit; 0 without requests."""
        return self.ceiling_pages * self.page_size / self.prompt_tokens if self.prompt_tokens else 0.0

    @cached_property
    def _corners(self) -> tuple[Counts, Counts, Counts, Counts]:
        """Capacities at which runs begin and end, sorted, each with its running sum."""
        begins = np.sort(self.needed - 1)
        ends = np.sort(self.needed - 1 + self.count)
        return begins, _running_sum(begins), ends, _running_sum(ends)

    def hit_tokens(self, capacity_tokens: npt.ArrayLike) -> Counts:
        """Tokens found at one or many capacities.

        Args:
            capacity_tokens: Capacities; what is left of a page is not used.

        Returns:
            int64, in the shape of `capacity_tokens`.

        Raises:
            InvalidArgument: A capacity below `min_capacity_tokens`.

        Complexity:
            O(log runs) a capacity, after O(runs log runs) once.
        """
        pages = np.asarray(capacity_tokens, dtype=np.int64) // self.page_size
        if pages.size and int(pages.min()) < self.min_pages:
            raise InvalidArgument(
                f"a capacity of {int(np.min(capacity_tokens))} tokens is less than the longest request "
                f"needs: {self.min_capacity_tokens} tokens"
            )
        return self._hit_pages(pages) * self.page_size

    def hit_rate(self, capacity_tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Tokens found by tokens of all prompts, at one or many capacities. Costs as `hit_tokens`."""
        return np.asarray(self.hit_tokens(capacity_tokens) / max(self.prompt_tokens, 1))

    def hits_by_request(self, capacity_tokens: int) -> Counts:
        """Pages that each request finds, int64, `[num_requests]`. O(runs).

        Raises:
            InvalidArgument: A capacity below `min_capacity_tokens`.
        """
        self.hit_tokens(capacity_tokens)
        found = np.clip(capacity_tokens // self.page_size - self.needed + 1, 0, self.count)
        return np.bincount(self.request, weights=found, minlength=self.num_requests).astype(np.int64)

    def capacity_for(self, share: float) -> int:
        """The least capacity that finds this share of what a cache without limit finds.

        Args:
            share: Share of the ceiling, in (0, 1].

        Returns:
            Tokens, whole pages.

        Raises:
            InvalidArgument: `share` lies outside (0, 1].

        Complexity:
            O(log capacity * log runs).
        """
        if not 0 < share <= 1:
            raise InvalidArgument(f"a share of the ceiling lies in (0, 1], got {share}")
        wanted = math.ceil(share * self.ceiling_pages)
        low, high = self.min_pages, self.full_capacity_tokens // self.page_size
        while low < high:
            middle = (low + high) // 2
            if int(self._hit_pages(np.int64(middle))) >= wanted:
                high = middle
            else:
                low = middle + 1
        return low * self.page_size

    def points(self, count: int = 200) -> list[tuple[int, float]]:
        """Capacity in tokens and hit rate, for a drawing: evenly spaced in the logarithm.

        From the longest request to where nothing more is gained.

        Args:
            count: Points at most, >= 2.
        """
        low, high = max(self.min_pages, 1), max(self.full_capacity_tokens // self.page_size, 1)
        pages = np.unique(np.geomspace(low, high, count).round().astype(np.int64)) * self.page_size
        return list(zip(pages.tolist(), self.hit_rate(pages).tolist(), strict=True))

    def _hit_pages(self, pages: npt.NDArray[np.int64] | np.int64) -> Counts:
        begins, begin_sums, ends, end_sums = self._corners
        num_begun, num_ended = np.searchsorted(begins, pages), np.searchsorted(ends, pages)
        begun = num_begun * pages - begin_sums[num_begun]
        ended = num_ended * pages - end_sums[num_ended]
        return np.asarray(begun - ended)


def kv_gib(num_tokens: int, shape: ModelShape, kv_dtype: str) -> float:
    """GiB of keys and values of so many tokens, all layers.

    Raises:
        UnknownName: No such dtype.
    """
    return num_tokens * shape.kv_bytes_per_token(kv_dtype) / _GIB


def lru_curve(trace: PageTrace) -> CapacityCurve:
    """The curve of a trace.

    Complexity:
        O(reuses * log requests), whatever the number of pages.
    """
    stack = _Stack(len(trace))
    slack = Slack()
    request: list[int] = []
    needed: list[int] = []
    count: list[int] = []
    first = trace.first_reuse().tolist()
    previous, start, stop = trace.previous.tolist(), trace.start.tolist(), trace.stop.tolist()
    match_pages, path_pages = trace.match_pages.tolist(), trace.path_pages.tolist()
    private = (trace.used_pages - trace.path_pages).tolist()
    for number, limit in enumerate(match_pages):
        runs = [
            StackRun(stack.above(previous[k]), start[k], stop[k])
            for k in range(first[number], first[number + 1])
        ]
        for run in runs:
            if run.start < limit:
                for capacity, pages in slack.needs(run.above + 1, min(run.stop, limit) - run.start):
                    request.append(number)
                    needed.append(capacity)
                    count.append(pages)
        slack.serve(runs, path_pages=path_pages[number], match_pages=limit, private=private[number])
        for k in range(first[number], first[number + 1]):
            stack.add(previous[k], start[k] - stop[k])
        stack.add(number, path_pages[number])
    return CapacityCurve(
        page_size=trace.page_size,
        prompt_tokens=int(trace.prompt_tokens.sum()),
        min_pages=trace.max_used_pages,
        ceiling_pages=trace.ceiling_pages,
        num_requests=len(trace),
        request=np.array(request, dtype=np.int64),
        needed=np.array(needed, dtype=np.int64),
        count=np.array(count, dtype=np.int64),
    )


class _Stack:
    """Pages in the LRU stack by the request that touched them last: a Fenwick tree."""

    def __init__(self, num_requests: int) -> None:
        self._sums = [0] * (num_requests + 1)
        self._total = 0

    def above(self, request: int) -> int:
        """Pages touched by later requests. O(log requests)."""
        sums, at, below = self._sums, request + 1, 0
        while at:
            below += sums[at]
            at &= at - 1
        return self._total - below

    def add(self, request: int, num_pages: int) -> None:
        """So many more, or fewer, pages were touched last by `request`. O(log requests)."""
        sums, at = self._sums, request + 1
        self._total += num_pages
        while at < len(sums):
            sums[at] += num_pages
            at += at & -at


def _running_sum(values: Counts) -> Counts:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(values)))
