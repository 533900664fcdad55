"""How long outputs will get, as far as one can know before they end."""

from collections import deque
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from scheduler.footprints import NO_LIMIT, Counts, Footprints

_WINDOW: Final = 1024
_GOLDEN_RATIO: Final = (5**0.5 - 1) / 2


class Expectation(Protocol):
    """Says how much each request will still generate."""

    def add(self, output_len: int) -> None:
        """An output finished at this length."""
        ...

    def remaining(self, everybody: Footprints, most: int) -> Counts:
        """Output tokens that each request is expected to generate yet.

        Args:
            everybody: Those that run, and one that may.
            most: Stands in for the limit of a request that has none. Unit: tokens.

        Returns:
            int64 of shape [requests], >= 0.
        """
        ...


class OutputLengths:
    """Expects of each request one of the lengths that outputs had, among those longer than what it generated.

    Not their mean: were all expected to end together, the pool would have to hold all of them at their
    longest, which never happens. Each request stands for another share of the outputs, so that together they
    are as different as outputs are. The shortest 1 / sqrt(n) of the outputs are left out, because n requests
    are seldom as average as many.

    What the running ones have generated counts as well: an output that is not finished is longer than that.
    Otherwise the first to finish, which are short, would speak for all. Where no longer output is known, the
    request's own limit is expected.

    Complexity:
        `remaining` for n requests: O((n + window) log n), and O(window log window) after lengths were added.

    Source:
        Kaplan and Meier, "Nonparametric Estimation from Incomplete Observations" (1958), for lengths of which
        only a lower bound is known.
    """

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=_WINDOW)
        self._finished: Counts | None = None

    def add(self, output_len: int) -> None:
        """See `Expectation`. Only the last 1,024 count."""
        self._recent.append(output_len)
        self._finished = None

    def remaining(self, everybody: Footprints, most: int) -> Counts:
        """See `Expectation`."""
        limits = np.where(everybody.limits == NO_LIMIT, most, everybody.limits)
        if not self._recent:
            return _up_to(limits, everybody.generated)
        left_out = len(everybody) ** -0.5
        spread = everybody.numbers * _GOLDEN_RATIO % 1.0
        return self.expect(everybody.generated, limits, left_out + (1 - left_out) * spread)

    def expect(self, generated: Counts, limits: Counts, shares: npt.NDArray[np.float64]) -> Counts:
        """Tokens still to come.

        Args:
            generated: Output tokens so far, int64 of shape [n].
            limits: Output tokens at most, int64 of shape [n].
            shares: The share of the longer outputs that ends before the one expected, float64 in [0, 1) of
                shape [n].

        Returns:
            int64 of shape [n], >= 0.
        """
        if self._finished is None:
            self._finished = np.sort(np.fromiter(self._recent, dtype=np.int64, count=len(self._recent)))
        finished = self._finished
        if not len(finished):
            return _up_to(limits, generated)
        num_longer = np.arange(len(finished), 0, -1)
        num_longer += len(generated) - np.searchsorted(np.sort(generated), finished)
        lasting = np.concatenate(([1.0], np.cumprod(1 - 1 / num_longer)))
        first_longer = np.searchsorted(finished, generated, side="right")
        ended_by = np.searchsorted(-lasting, -lasting[first_longer] * (1 - shares))
        expected = np.append(finished, np.iinfo(np.int64).max)[np.maximum(ended_by - 1, first_longer)]
        return _up_to(np.minimum(expected, limits), generated)


def _up_to(lengths: Counts, generated: Counts) -> Counts:
    remaining: Counts = np.maximum(lengths - generated, 0)
    return remaining
