"""Which of many matches is longest, among those whose clients may be served."""

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.policies.balances import Balances
from scheduler.request import Request
from scheduler.waiting.shortlist import high_bar

_SIZE: Final = 48
_MOST: Final = 4

_NOBODY: Final = np.empty(0, dtype=np.int64)
_LAST: Final = (1, 0)
"""Behind every (-pages, number)."""


class Matches(NamedTuple):
    """Requests, oldest first, with gaps.

    Attributes:
        numbers: Numbers of the requests.
        clients: Rows of their clients in `Balances`.
        pages: Pages matched; negative where a request is held, and in a gap.
    """

    numbers: npt.NDArray[np.int64]
    clients: npt.NDArray[np.int64]
    pages: npt.NDArray[np.int32]


class LongestMatches:
    """The longest match of a request whose client may be served, the oldest among equals. A `Shortlist`.

    A look at all lists the first few in that order, and notes where the list ends: everybody else comes
    behind. Who comes or changes is listed if it belongs before that. Clients only lose the right to be
    served, until `forget` is called as a round begins; then all are looked at again.

    Args:
        matches: Gives everybody's as they are now.
        settle: Is called before everybody's are looked at, to make gaps of those who left.
        balances: Say which clients may be served.

    Attributes:
        size: About how many are listed, > 0.

    Complexity:
        `first`: O(log listed) amortised; about once while `size` requests go, and once a round, O(waiting)
        in NumPy, some 40 µs for 10,000. The rest O(log listed) for each request.
    """

    def __init__(
        self, matches: Callable[[], Matches], settle: Callable[[], None], balances: Balances
    ) -> None:
        self.size = _SIZE
        self._matches = matches
        self._settle = settle
        self._balances = balances
        self._listed: dict[int, int] = {}
        """Pages matched, by number."""
        self._heap: list[tuple[int, int, int]] = []
        """(-pages, number, client); some of those that are listed no longer."""
        self._end: tuple[int, int] | None = None
        """Whoever may be served and comes before this is listed; `None`: unknown."""
        self._is_all = False
        """Whether everybody who is not held is listed, whatever the client."""

    # What happens to requests

    def changed(self, request: Request, key: float) -> None:
        """See `Shortlist`. The key is the match in pages; negative where the request is held."""
        if self._end is None:
            return
        number, pages = request.number, int(key)
        if pages < 0 or (-pages, number) > self._end:
            self._listed.pop(number, None)
        elif self._listed.get(number) != pages:
            self._listed[number] = pages
            heapq.heappush(self._heap, (-pages, number, self._balances.row_of(request.client)))
            if len(self._heap) > _MOST * self.size:
                self.forget()

    def removed(self, number: int) -> None:
        """See `Shortlist`."""
        self._listed.pop(number, None)

    def forget(self) -> None:
        """See `Shortlist`. To be called as well when clients may be served that might not."""
        self._end = None
        self._listed.clear()
        self._heap.clear()

    # Who is first

    def first(self) -> int | None:
        """Number of the request with the longest match; `None` where none that is not held may be served."""
        if self._end is not None:
            number = self._first_listed()
            if number is not None or self._is_all:
                return number
        return self._look_at_all()

    def _first_listed(self) -> int | None:
        while self._heap:
            pages, number, client = self._heap[0]
            if self._listed.get(number) == -pages and self._balances.may_be_served(client):
                return number
            heapq.heappop(self._heap)
        return None

    def clients(self) -> npt.NDArray[np.int64]:
        """Rows of the clients of all that are not held, when `first` found none. O(1) where all are held."""
        if self._is_all and not self._listed:
            return _NOBODY
        self._settle()
        matches = self._matches()
        return matches.clients[matches.pages >= 0]

    # Looking at all

    def _look_at_all(self) -> int | None:
        """List the first few, and return the first."""
        self.forget()
        self._settle()
        matches = self._matches()
        numbers, clients, pages = matches
        if len(pages) <= 2 * self.size:
            self._is_all = True
            self._list(matches, (pages >= 0).nonzero()[0], _LAST)
            return self._first_listed()
        scores = self._balances.bars(clients)
        scores += pages
        row = int(scores.argmax())
        may_be_served = bool(scores[row] >= 0)
        self._is_all = not may_be_served and not (pages >= 0).any()
        bar = int(high_bar(scores, self.size))
        if bar < 0:
            rows, end = (scores >= 0).nonzero()[0], _LAST
        else:
            equal = (scores == bar).nonzero()[0][: self.size]
            rows = np.concatenate(((scores > bar).nonzero()[0], equal))
            end = -bar, int(numbers[equal[-1]])
        if len(rows) > _MOST * self.size:
            rows = rows[np.argsort(-scores[rows], kind="stable")[: self.size]]
            end = -int(scores[rows[-1]]), int(numbers[rows[-1]])
        self._list(matches, rows, end)
        return int(numbers[row]) if may_be_served else None

    def _list(self, matches: Matches, rows: npt.NDArray[np.int64], end: tuple[int, int]) -> None:
        self._end = end
        for number, client, pages in zip(*(column[rows].tolist() for column in matches), strict=True):
            self._listed[number] = pages
            self._heap.append((-pages, number, client))
        heapq.heapify(self._heap)
