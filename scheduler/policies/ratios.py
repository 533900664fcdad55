"""Which of many ratios is highest, while all rise with time, each at a pace of its own."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.request import Request
from scheduler.waiting.shortlist import high_bar

Times = npt.NDArray[np.float64]

_NOBODY: Final = np.empty(0, dtype=np.int64)

_SIZE: Final = 24
_MOST: Final = 4
_NONE: Final = -1e300
"""Less than any ratio, and finite, as bounds are reckoned with."""

_SLACK: Final = 1e-12
"""Share of a ratio within which rounding may hide who is higher; some thousand times what it does."""


class Lines(NamedTuple):
    """Everybody's ratio as a line over time: requests, oldest first, with gaps.

    Attributes:
        numbers: Numbers of the requests.
        since: Times of submission.
        uncached: Tokens to compute; infinite where a request is held, and in a gap.
    """

    numbers: npt.NDArray[np.int64]
    since: Times
    uncached: Times


class HighestRatios:
    """The highest (time waited + 1) / (tokens to compute), the oldest among equals. A `Shortlist`.

    A ratio is a straight line over time, and the highest of many lines bends upwards: between two times, the
    highest of those that are not listed lies below the chord of what it is at both. So a look at all lists
    those that are high now or will be high a while later, and notes a bound for the others at both times. As
    long as the best of the list lies above the chord, it is the best of all. Who comes or changes is listed
    if it may pass a bound.

    Prompts of one length that came at once have one line. Where the best line is that of more than the list
    holds, the oldest of them stand for all: the bounds are those of the other lines, as long as one of these
    is listed.

    Args:
        lines: Gives everybody's as they are now.
        settle: Is called before everybody's are looked at, to make gaps of those who left.

    Attributes:
        size: About how many are listed, > 0.

    Complexity:
        `first`: O(`size`); about once while `size` requests go O(waiting) in NumPy, some 80 µs for 10,000.
        The rest O(1) for each request.
    """

    def __init__(self, lines: Callable[[], Lines], settle: Callable[[], None]) -> None:
        self.size = _SIZE
        self._lines = lines
        self._settle = settle
        self._listed: dict[int, tuple[float, float]] = {}
        self._is_known = self._is_all = False
        self._start = self._stop = 0.0
        self._at_start = self._at_stop = 0.0
        """Bounds of those that are not listed."""
        self._reach = 0.0
        self._buffer: Times = np.empty(0)
        self._twins: set[int] = set()
        """Listed requests that stand for others with the same line; none: nobody has to."""

    # What happens to requests

    def changed(self, request: Request, key: float) -> None:
        """See `Shortlist`. The key is what is uncached, in tokens; infinite where the request is held."""
        self.removed(request)
        if not self._is_known:
            return
        assert request.submitted_at is not None
        since = request.submitted_at
        if key != np.inf and (self._is_all or self._may_pass(since, key)):
            self._listed[request.number] = since, key
            if len(self._listed) > _MOST * self.size:
                self.forget()

    def _may_pass(self, since: float, uncached: float) -> bool:
        passes = (self._start - since + 1.0) / uncached > self._at_start
        return passes or (self._stop - since + 1.0) / uncached > self._at_stop

    def removed(self, request: Request) -> None:
        """See `Shortlist`."""
        self._listed.pop(request.number, None)
        if request.number in self._twins:
            self._twins.remove(request.number)
            if not self._twins:
                self.forget()

    def forget(self) -> None:
        """See `Shortlist`."""
        self._is_known = False
        self._listed.clear()
        self._twins.clear()

    # Who is first

    def first(self, now: float) -> int | None:
        """Number of the request whose ratio is highest; `None` where all are held."""
        if self._is_known:
            number, ratio = self._best_listed(now)
            if self._is_all or ratio > self._bound(now):
                return number
        return self._look_at_all(now)

    def _best_listed(self, now: float) -> tuple[int | None, float]:
        first, highest = None, -np.inf
        for number, (since, uncached) in self._listed.items():
            ratio = (now - since + 1.0) / uncached
            if ratio > highest or (ratio == highest and first is not None and number < first):
                first, highest = number, ratio
        return first, highest

    def _bound(self, now: float) -> float:
        """More than anybody has now who is not listed."""
        if not self._start <= now <= self._stop:
            return np.inf
        bound = self._at_start
        if now > self._start:
            share = (now - self._start) / (self._stop - self._start)
            bound += (self._at_stop - self._at_start) * share
        return bound + _SLACK * (1.0 + abs(self._at_start) + abs(self._at_stop))

    # Looking at all

    def _look_at_all(self, now: float) -> int | None:
        """Find the first among all, and list who may be first soon."""
        self._settle()
        lines = self._lines()
        if self._is_known and now > self._start:
            self._reach = 2 * (now - self._start)  # a list may last longer than the one before
        self.forget()
        self._is_known, self._is_all = True, len(lines.uncached) <= 2 * self.size
        if self._is_all:
            self._list(lines, np.arange(len(lines.uncached)))
            return self._best_listed(now)[0]
        self._start, self._stop = now, now + self._reach
        ratios = self._ratios(self._start, lines)
        row = int(ratios.argmax())
        if lines.uncached[row] == np.inf:  # all are held, or this time is before all of theirs
            ratios[lines.uncached == np.inf] = _NONE
            row = int(ratios.argmax())
            self._is_all = bool(lines.uncached[row] == np.inf)
        if self._is_all:
            return None
        twins = self._twins_of(row, lines)
        self._at_start, are_high = self._high(ratios, twins)
        self._at_stop, will_be_high = self._high(self._ratios(self._stop, lines), twins)
        rows = (are_high | will_be_high).nonzero()[0]
        if len(rows) > _MOST * self.size:
            self.forget()
        else:
            self._list(lines, rows)
            self._list(lines, twins[: self.size])
            self._twins.update(lines.numbers[twins[: self.size]].tolist())
        return int(lines.numbers[row])

    def _twins_of(self, row: int, lines: Lines) -> npt.NDArray[np.int64]:
        """Rows with the line of one, if these are more than are listed."""
        is_same = lines.since == lines.since[row]
        is_same &= lines.uncached == lines.uncached[row]
        return is_same.nonzero()[0] if np.count_nonzero(is_same) > self.size else _NOBODY

    def _ratios(self, at: float, lines: Lines) -> Times:
        """Everybody's at a time; void with the next call."""
        num_rows = len(lines.since)
        if len(self._buffer) < num_rows:  # fresh memory costs as much as the quotients
            self._buffer = np.empty(num_rows + num_rows // 4)
        ratios = self._buffer[:num_rows]
        np.subtract(at, lines.since, out=ratios)
        ratios += 1.0
        ratios /= lines.uncached
        return ratios

    def _high(self, ratios: Times, others: npt.NDArray[np.int64]) -> tuple[float, npt.NDArray[np.bool_]]:
        """A bound, and for each row whether it lies above, but for other rows."""
        ratios[others] = _NONE
        bound = float(high_bar(ratios, self.size))
        return bound, ratios > bound

    def _list(self, lines: Lines, rows: npt.NDArray[np.int64]) -> None:
        columns = (column[rows].tolist() for column in lines)
        for number, since, uncached in zip(*columns, strict=True):
            if uncached != np.inf:
                self._listed[number] = since, uncached
