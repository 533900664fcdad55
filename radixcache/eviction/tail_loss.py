"""How much of the end of a path its continuation leaves behind: answers cut short, thoughts taken out."""

from typing import Final

HALVE_EVERY: Final = 1024
PSEUDO_COUNT: Final = 8.0
MAX_POWER: Final = 16


class TailLoss:
    """Counts lost pages by powers of two.

    Attributes:
        num_pages: The largest power of two that more than half of the continuations lost; 0 if none.
        kept: Share of continuations that lost fewer.
    """

    def __init__(self) -> None:
        self.num_pages = 0
        self.kept = 1.0
        self._seen = 0.0
        self._num_noted = 0
        self._at_least = [0.0] * MAX_POWER

    def note(self, num_pages: int) -> None:
        """A continuation lost that many pages. O(MAX_POWER)."""
        self._seen += 1
        for power in range(min(MAX_POWER, num_pages.bit_length())):
            self._at_least[power] += 1
        self._num_noted += 1
        if self._num_noted % HALVE_EVERY == 0:
            self._seen /= 2
            self._at_least = [count / 2 for count in self._at_least]
        self.num_pages, self.kept = 0, 1.0
        for power, count in enumerate(self._at_least):
            lost = count / (self._seen + PSEUDO_COUNT)
            if lost <= 0.5:
                break
            self.num_pages, self.kept = 1 << power, 1.0 - lost
