"""The first few of some requests, by match."""

import heapq
from collections.abc import Iterable
from typing import Final, TypeAlias

Place: TypeAlias = tuple[int, int]
"""(-pages matched, number): the longest match comes first, the oldest among equals."""

LAST: Final[Place] = (1, 0)
"""Behind everybody who may come next."""

_MOST: Final = 4
"""So many times the size a list may be long."""
_SOME: Final = 16


class Leading:
    """Requests that may come next, up to an end: whoever comes before it is listed.

    Args:
        end: Where the list ends.
        size: So many stay listed when there are more than four times as many, > 0.
        pages: Pages matched by number, of all requests that come before the end or stand there.

    Attributes:
        end: Who is not listed comes behind it.

    Complexity:
        O(log listed) amortised for each call.
    """

    __slots__ = ("_heap", "_pages", "_size", "end")

    def __init__(self, end: Place, size: int, pages: Iterable[tuple[int, int]] = ()) -> None:
        self.end = end
        self._size = size
        self._pages = dict(pages)
        self._heap: list[Place] = [(-pages, number) for number, pages in self._pages.items()]
        """Places of all that are listed, and some that are out of date."""
        heapq.heapify(self._heap)

    def put(self, number: int, pages: int) -> bool:
        """A request came, or matches so many pages now; negative where it is held.

        Returns:
            Whether it may come before all others now.
        """
        place = -pages, number
        if pages < 0 or place > self.end:
            self._pages.pop(number, None)
            return False
        if self._pages.get(number) == pages:
            return False
        self._pages[number] = pages
        heapq.heappush(self._heap, place)
        may_be_first = self._heap[0] is place
        if len(self._heap) > 2 * len(self._pages) + _SOME or len(self._pages) > _MOST * self._size:
            self._trim()
        return may_be_first

    def remove(self, number: int) -> None:
        """A request waits no longer."""
        self._pages.pop(number, None)

    def first(self) -> Place | None:
        """Who comes before all others that are listed."""
        while self._heap:
            place = self._heap[0]
            if self._pages.get(place[1]) == -place[0]:
                return place
            heapq.heappop(self._heap)
        return None

    def _trim(self) -> None:
        """Drop what is out of date, and the end of a list that is too long."""
        self._heap = [(-pages, number) for number, pages in self._pages.items()]
        if len(self._heap) > _MOST * self._size:
            self._heap = heapq.nsmallest(self._size, self._heap)
            self._pages = {number: -shortness for shortness, number in self._heap}
            self.end = self._heap[-1]
        heapq.heapify(self._heap)
