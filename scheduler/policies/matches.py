"""Which of many matches is longest, among those whose clients may be served."""

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from scheduler.policies.balances import Balances
from scheduler.policies.leading import LAST, Leading, Place
from scheduler.request import Request
from scheduler.waiting.shortlist import high_bar

Rows: TypeAlias = npt.NDArray[np.int64]
Pages: TypeAlias = npt.NDArray[np.int32]
Bound: TypeAlias = tuple[int, int, bool, int]
"""A place, whether nobody is listed there, and the client."""

_SIZE: Final = 48
_FEW: Final = 32
_MOST: Final = 4
_SOME: Final = 64
_ALL: Final = -1
"""Stands for all clients that have no list."""


class Matches(NamedTuple):
    """Requests, oldest first, with gaps.

    Attributes:
        numbers: Numbers of the requests.
        clients: Rows of their clients in `Balances`.
        pages: Pages matched; negative where a request is held, and in a gap.
    """

    numbers: Rows
    clients: Rows
    pages: Pages


class LongestMatches:
    """The longest match of a request whose client may be served, the oldest among equals. A `Shortlist`.

    Each client has a list of its first few, and whoever else of the client comes behind the end of that. A
    heap holds a bound for each client that may be served, before which none of its requests comes: the first
    that is listed, or the end of the list. Where an end is the first of all, the client is looked at anew. So
    lists stay true whoever may be served, and whenever a round begins.

    Where clients are many, those that may be served are looked at together, and whoever is not listed comes
    behind one end. Clients only lose the right to be served until a round begins; then all is forgotten.

    Args:
        matches: Gives everybody's as they are now.
        settle: Is called before everybody's are looked at, to make gaps of those who left.
        balances: Say which clients may be served.

    Attributes:
        size: About how many are listed in a look, > 0.
        few: So many clients have a list each.

    Complexity:
        `first`: O(log listed) amortised. About once while `size` requests of a client go, O(waiting) in
        NumPy, some 20 µs for 10,000; where clients are many, once a round and once while `size` requests of
        anybody go, some 60 µs. `round_began` O(lists). The rest O(log listed) for each request.
    """

    def __init__(
        self, matches: Callable[[], Matches], settle: Callable[[], None], balances: Balances
    ) -> None:
        self.size = _SIZE
        self.few = _FEW
        self._matches = matches
        self._settle = settle
        self._balances = balances
        self._lists: dict[int, Leading] = {}
        """By client: of all that have a request which is not held, where these are few."""
        self._end: Place | None = None
        """Where lists end, but for those of clients that were looked at alone; `None`: unknown."""
        self._are_few = True
        self._bounds: list[Bound] = []
        """A heap; some are out of date, and then stand before what is true."""

    # What happens to requests

    def changed(self, request: Request, key: float) -> None:
        """See `Shortlist`. The key is the match in pages; negative where the request is held."""
        if self._end is None:
            return
        number, pages, client = request.number, int(key), self._balances.row_of(request.client)
        leading = self._lists.get(client)
        if leading is None:
            if pages < 0 or not (self._are_few or (-pages, number) <= self._end):
                return
            if len(self._lists) == 2 * (self.few if self._are_few else _MOST * self.size):
                self.forget()
                return
            leading = self._lists[client] = Leading(self._end, self.size)
            self._bound(client)
        if leading.put(number, pages):
            heapq.heappush(self._bounds, (-pages, number, False, client))
            if len(self._bounds) > 2 * len(self._lists) + _SOME:
                self._bound_all()

    def removed(self, request: Request) -> None:
        """See `Shortlist`."""
        leading = self._lists.get(self._balances.row_of(request.client))
        if leading is not None:
            leading.remove(request.number)

    def forget(self) -> None:
        """See `Shortlist`."""
        self._end = None
        self._lists.clear()
        self._bounds.clear()

    def round_began(self) -> None:
        """Clients may be served that might not."""
        if self._are_few:
            self._bound_all()
        else:
            self.forget()

    # Who is first

    def first(self) -> int | None:
        """Number of the request with the longest match; `None` where none that is not held may be served."""
        if self._end is None:
            self._look_at_all()
        while self._bounds:
            _, number, is_end, client = bound = self._bounds[0]
            if client == _ALL:
                self._look_at_all()
                continue
            present = self._bound_of(client) if self._balances.may_be_served(client) else None
            if present is None:
                heapq.heappop(self._bounds)
            elif present != bound:
                heapq.heapreplace(self._bounds, present)
            elif is_end:
                self._look_at(client)
            else:
                return number
        return None

    def clients(self) -> list[int]:
        """Rows of the clients of all that are not held, when `first` found none."""
        if not self._are_few:
            self._settle()
            matches = self._matches()
            present: list[int] = np.bincount(matches.clients[matches.pages >= 0]).nonzero()[0].tolist()
            return present
        for client, leading in self._lists.items():
            if leading.first() is None and leading.end != LAST:
                self._look_at(client)
        return [client for client, leading in self._lists.items() if leading.first() is not None]

    # Bounds

    def _bound_of(self, client: int) -> Bound | None:
        """Before which no request of a client comes; `None` where it has none that is not held."""
        leading = self._lists[client]
        place = leading.first()
        if place is not None:
            return *place, False, client
        is_alone = self._are_few or leading.end != self._end
        return (*leading.end, True, client) if is_alone and leading.end != LAST else None

    def _bound(self, client: int) -> None:
        bound = self._bound_of(client)
        if bound is not None:
            heapq.heappush(self._bounds, bound)

    def _bound_all(self) -> None:
        bounds = [self._bound_of(client) for client in self._lists if self._balances.may_be_served(client)]
        self._bounds = [bound for bound in bounds if bound is not None]
        if not self._are_few and self._end not in (None, LAST):
            self._bounds.append((*self._end, True, _ALL))
        heapq.heapify(self._bounds)

    # Looking at many

    def _look_at_all(self) -> None:
        """List the first few of all clients, or of those that may be served where clients are many."""
        self.forget()
        self._settle()
        matches = self._matches()
        present = np.bincount(matches.clients).nonzero()[0]  # and whose number stands in gaps
        self._are_few = len(present) <= self.few
        scores = matches.pages
        if not self._are_few:
            scores = scores + self._balances.bars(matches.clients)
        rows, self._end = self._longest(matches.numbers, scores)
        if self._are_few:
            self._lists = {client: Leading(self._end, self.size) for client in present.tolist()}
        for number, client, pages in zip(*(column[rows].tolist() for column in matches), strict=True):
            if client not in self._lists:
                self._lists[client] = Leading(self._end, self.size)
            self._lists[client].put(number, pages)
        self._bound_all()

    def _look_at(self, client: int) -> None:
        """List the first few of a client."""
        self._settle()
        matches = self._matches()
        own = (matches.clients == client).nonzero()[0]
        numbers, pages = matches.numbers[own], matches.pages[own]
        rows, end = self._longest(numbers, pages)
        listed = zip(numbers[rows].tolist(), pages[rows].tolist(), strict=True)
        self._lists[client] = Leading(end, self.size, listed)

    def _longest(self, numbers: Rows, pages: Pages) -> tuple[Rows, Place]:
        """Rows of those that come first, and behind which place all others come."""
        if len(pages) <= 2 * self.size:
            return (pages >= 0).nonzero()[0], LAST
        bar = int(high_bar(pages, self.size))
        if bar < 0:
            rows, end = (pages >= 0).nonzero()[0], LAST
        else:
            equal = (pages == bar).nonzero()[0][: self.size]
            rows = np.concatenate(((pages > bar).nonzero()[0], equal))
            end = -bar, int(numbers[equal[-1]])
        if len(rows) > _MOST * self.size:
            rows = rows[np.argsort(-pages[rows], kind="stable")[: self.size]]
            end = -int(pages[rows[-1]]), int(numbers[rows[-1]])
        return rows, end
