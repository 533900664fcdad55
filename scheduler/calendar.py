"""Requests that only decode, counted on together instead of one by one."""

import numpy as np
import numpy.typing as npt

from scheduler.footprints import (
    GENERATED,
    KNOWN,
    LIMIT,
    NO_LIMIT,
    NUM_COLUMNS,
    RESERVED,
    Counts,
    Footprints,
    footprint,
)
from scheduler.request import Request


class StepCalendar:
    """Running requests that get one token a step, of which only the number of steps is kept.

    What a request knows and what it has generated grow by one a step. So the columns hold the difference to
    the number of steps so far, and a request itself is looked at only when it needs a page or ends. The sum
    of their contexts is kept as well: a step costs the same for any number of requests.

    Args:
        page_size: Tokens a page holds.

    Complexity:
        `add`, `remove`, `advance` and `context` O(1); the rest O(n) of vector arithmetic.
    """

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._requests: list[Request] = []
        self._places: dict[int, int] = {}
        self._columns = np.empty((NUM_COLUMNS, 16), dtype=np.int64)
        self._num_steps = 0
        self._context_at_start = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __contains__(self, request: Request) -> bool:
        return request.number in self._places

    @property
    def requests(self) -> list[Request]:
        """Those that decode, in no order that means anything."""
        return list(self._requests)

    @property
    def context(self) -> int:
        """Tokens with KV, summed over all."""
        return self._context_at_start + len(self._requests) * self._num_steps

    def add(self, request: Request) -> None:
        """A request has one known token without KV, and gets one in each step from now on."""
        place = len(self._requests)
        if place == self._columns.shape[1]:
            self._columns = np.concatenate((self._columns, np.empty_like(self._columns)), axis=1)
        self._columns[:, place] = footprint(request)
        self._columns[KNOWN : GENERATED + 1, place] -= self._num_steps
        self._requests.append(request)
        self._places[request.number] = place
        self._context_at_start += request.num_known - 1 - self._num_steps

    def remove(self, request: Request) -> int:
        """A request leaves.

        Returns:
            The tokens it was counted on by, which it does not know of yet.
        """
        lag = self.lag(request)
        self._context_at_start -= request.num_known - 1 + lag - self._num_steps
        place, last = self._places.pop(request.number), self._requests.pop()
        if last is not request:
            self._requests[place] = last
            self._places[last.number] = place
            self._columns[:, place] = self._columns[:, len(self._requests)]
        return lag

    def lag(self, request: Request) -> int:
        """Tokens that a request was counted on by since it was added."""
        generated = int(self._columns[GENERATED, self._places[request.number]]) + self._num_steps
        return generated - len(request.output)

    def advance(self, num_steps: int) -> None:
        """Everybody gets so many tokens."""
        self._num_steps += num_steps

    def due(self, num_steps: int) -> list[Request]:
        """Those that need pages within so many steps, oldest first."""
        columns = self._used()
        return self._oldest_first(self._reach(num_steps) > columns[RESERVED])

    def ending(self, num_steps: int) -> list[Request]:
        """Those that reach their limit within so many steps, oldest first."""
        columns = self._used()
        return self._oldest_first(columns[GENERATED] + (self._num_steps + num_steps) >= columns[LIMIT])

    def steps_to_end(self) -> int:
        """Steps until the first reaches its limit."""
        columns = self._used()
        return int((columns[LIMIT] - columns[GENERATED]).min(initial=NO_LIMIT)) - self._num_steps

    def pages_needed(self, num_steps: int) -> int:
        """Pages that so many steps take."""
        pages = -(-self._reach(num_steps) // self._page_size) - self._used()[RESERVED] // self._page_size
        return int(np.maximum(pages, 0).sum())

    def reserve(self, request: Request, num_steps: int) -> None:
        """Get a request the pages for so many steps.

        Raises:
            OutOfPages: See `Sequence.reserve`. Nothing changed.
        """
        assert request.sequence is not None
        request.sequence.reserve(self.lag(request) + num_steps)
        self._columns[RESERVED, self._places[request.number]] = request.sequence.reserved_len

    def footprints(self) -> Footprints:
        """What they hold now."""
        columns = self._used().copy()
        columns[KNOWN : GENERATED + 1] += self._num_steps
        return Footprints(self._requests, columns)

    def _used(self) -> Counts:
        return self._columns[:, : len(self._requests)]

    def _reach(self, num_steps: int) -> Counts:
        """Tokens with KV after so many steps."""
        reach: Counts = self._used()[KNOWN] + (self._num_steps + num_steps - 1)
        return reach

    def _oldest_first(self, which: npt.NDArray[np.bool_]) -> list[Request]:
        found = (self._requests[place] for place in which.nonzero()[0])
        return sorted(found, key=lambda request: request.number)
