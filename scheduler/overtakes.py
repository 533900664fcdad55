"""Who was overtaken as often as may be."""

from collections import OrderedDict

from scheduler.request import Request

_FREE = float("inf")


class Overtakes:
    """How often each waiting request may still be overtaken.

    A request is overtaken when one with a larger number is admitted for the first time, which takes one from
    what is left to all older ones. Limits may differ, so it is not always the oldest that reaches its own
    first: what is left stands in a tree of minima, in which a whole prefix falls at once.

    Complexity:
        `due` O(1) while nobody is due; the rest O(log waiting), amortised.
    """

    def __init__(self) -> None:
        self._place: OrderedDict[int, int] = OrderedDict()
        self._waiting: list[Request | None] = []
        self._grow(8)

    def __len__(self) -> int:
        return len(self._place)

    def arrived(self, request: Request, limit: int) -> None:
        """A request waits, and may be overtaken `limit` times. Its number is larger than all others."""
        if len(self._waiting) == self._size:
            self._make_room()
        self._place[request.number] = len(self._waiting)
        self._waiting.append(request)
        self._set(self._place[request.number], limit)

    def left(self, number: int, *, admitted: bool) -> None:
        """A request was admitted for the first time, or ended while it waited."""
        place = self._place.pop(number)
        self._waiting[place] = None
        self._set(place, _FREE)
        if admitted:
            self._overtake(place)

    def due(self) -> Request | None:
        """The oldest of those that must not be overtaken once more."""
        least, lower = self._least, self._lower
        if least[1] > 0:
            return None
        node, fallen = 1, 0.0
        while node < self._size:
            fallen += lower[node]
            node *= 2
            if least[node] > fallen:
                node += 1
        return self._waiting[node - self._size]

    def allowance(self, number: int) -> float:
        """How often a waiting request may still be overtaken."""
        node = self._place[number] + self._size
        left = self._least[node]
        while node := node >> 1:
            left -= self._lower[node]
        return left

    def _grow(self, size: int) -> None:
        """An empty tree: node n has the children 2n and 2n + 1, leaves begin at `size`.

        `least` is the smallest value below a node, as seen from above it; `lower` is what is still to be
        taken from everything below it.
        """
        self._size = size
        self._least = [_FREE] * (2 * size)
        self._lower = [0.0] * (2 * size)

    def _make_room(self) -> None:
        """Close the gaps that requests left, and double the places where there are too few."""
        left = {number: self.allowance(number) for number in self._place}
        waiting = [request for request in self._waiting if request is not None]
        size = self._size
        while size < 2 * len(waiting):
            size *= 2
        self._grow(size)
        self._waiting = list(waiting)
        for place, (number, allowance) in enumerate(left.items()):
            self._place[number] = place
            self._least[size + place] = allowance
        for node in range(size - 1, 0, -1):
            self._least[node] = min(self._least[2 * node], self._least[2 * node + 1])

    def _set(self, place: int, value: float) -> None:
        least, lower, node = self._least, self._lower, place + self._size
        above = node
        while above := above >> 1:
            value += lower[above]
        least[node] = value
        while node := node >> 1:
            least[node] = min(least[2 * node], least[2 * node + 1]) - lower[node]

    def _overtake(self, place: int) -> None:
        """Take one from all places before this one."""
        least, lower, node = self._least, self._lower, place + self._size
        while node > 1:
            if node & 1:
                least[node - 1] -= 1
                lower[node - 1] += 1
            node >>= 1
            least[node] = min(least[2 * node], least[2 * node + 1]) - lower[node]
