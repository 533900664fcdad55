"""Pages that stand empty between two requests, at every capacity at once.

A request may need more pages than it leaves in the cache: the private page of its last, partial tokens, and
pages that it computes although they are cached (they hold the last token of its prompt). Others had to go
for them, so a cache of M pages keeps fewer than the first M of the LRU stack. Still it keeps a start of the
stack: at a position beyond the v-th bound a page needs a capacity of its position + v. It must not know hits.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class StackRun(NamedTuple):
    """Known pages of a path that lie together in the stack.

    Attributes:
        above: Pages of the stack above the first of them.
        start: Depth of the first of them in the path, from 0.
        stop: Depth behind the last of them.
    """

    above: int
    start: int
    stop: int


class Slack:
    """The bounds, from request to request. Positions in the stack count from 1."""

    def __init__(self) -> None:
        self._bounds: list[int] = []

    def needs(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Capacities that pages of `count` consecutive positions need.

        Yields:
            Capacity for the first page of a piece, and pages of the piece; each further page needs one more.

        Complexity:
            O(pieces): one, as a rule.
        """
        end = first + count
        for extra, bound in enumerate(self._bounds):
            if bound >= first:
                piece = min(bound + 1, end) - first
                yield first + extra, piece
                first += piece
                if first == end:
                    return
        yield first + len(self._bounds), end - first

    def serve(self, runs: Sequence[StackRun], *, path_pages: int, match_pages: int, private: int) -> None:
        """Account for a request.

        Args:
            runs: The known pages of its path, from the root on, in the stack as it was before.
            path_pages: Pages that it leaves on top of the stack.
            match_pages: How many of them it may find; known ones beyond are computed all the same.
            private: Pages that it needs beside them and gives back.

        Complexity:
            O(runs + bounds); there are as many bounds as pages that can stand empty, two as a rule.
        """
        known = runs[-1].stop if runs else 0
        kept = self._shifted(runs, path_pages, path_pages - known) if self._bounds else []
        bounds = [path_pages] * private
        if known > match_pages:
            bounds += [
                path_pages + _position(runs, depth) - depth for depth in range(match_pages + 1, known + 1)
            ]
        for value, bound in enumerate(kept):
            if value == len(bounds):
                bounds += kept[value:]
                break
            bounds[value] = min(bounds[value], bound)
        self._bounds = bounds

    def _shifted(self, runs: Sequence[StackRun], path_pages: int, num_new: int) -> list[int]:
        """The bounds, where pages that moved down by s positions filled s of the empty pages."""
        bounds = self._bounds
        kept = []
        for value in range(1, len(bounds) - num_new + 1):
            reach = min(
                max(_position(runs, path_pages - moved), bounds[value + moved - 1])
                for moved in range(num_new, len(bounds) - value + 1)
            )
            kept.append(reach + num_new + _num_below(runs, reach))
        return kept


def _position(runs: Sequence[StackRun], depth: int) -> int:
    """Position of the path's known page number `depth`, from 1; 0 for number 0 and less."""
    for run in runs:
        if run.start < depth <= run.stop:
            return run.above + depth - run.start
    return 0


def _num_below(runs: Sequence[StackRun], position: int) -> int:
    """Known pages of the path at greater positions."""
    return sum(min(run.stop - run.start, max(0, run.above + run.stop - run.start - position)) for run in runs)
