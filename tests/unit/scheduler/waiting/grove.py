"""A forest over a cache, with requests and publications by hand. Every prompt is pages of two tokens."""

from collections.abc import Sequence as Numbers

from radixcache import CacheConfig, Namespace, PrefixCache, Sequence
from scheduler import Request
from scheduler.waiting import OLDEST, WaitingForest
from scheduler.waiting.anchors import Anchors
from scheduler.waiting.choice import Choice
from scheduler.waiting.order import PointOrder
from scheduler.waiting.points import HeapedPoints, by_match

PAGE_SIZE = 2


def pages(*names: int) -> list[int]:
    """One page for each name."""
    return [token for name in names for token in (name, name)]


class Grove:
    def __init__(self, num_pages: int = 64, choice: Choice = OLDEST, eviction: str = "lru") -> None:
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=PAGE_SIZE, eviction=eviction))
        self.points = HeapedPoints(by_match)
        anchors = Anchors(self.cache.config)
        order = PointOrder(anchors.is_held, self.points, choice)
        self.forest = WaitingForest(self.cache, anchors, order)
        self._next_number = 0

    def add(self, *names: int, namespace: Namespace = None, read: bool = True) -> Request:
        """A request that waits, and could match all of these pages."""
        name = f"r{self._next_number}"
        request = Request.of(name, [*pages(*names), 0], 1, namespace=namespace, read=read)
        request.number = self._next_number
        self._next_number += 1
        self.forest.add(request)
        return request

    def compute(self, *names: int, namespace: Namespace = None) -> Sequence:
        """A running sequence that has computed these pages and published what was not there."""
        sequence = self.cache.open([*pages(*names), 0], namespace)
        sequence.reserve(len(names) * PAGE_SIZE + 1 - sequence.computed_len)
        sequence.advance(len(names) * PAGE_SIZE - sequence.computed_len)
        sequence.publish()
        return sequence

    def cached(self, *names: int, namespace: Namespace = None) -> None:
        self.compute(*names, namespace=namespace).close()

    def first(self) -> Request | None:
        point = self.points.first()
        return None if point is None else self.forest.numbered(point.best)

    def matches(self, *requests: Request) -> list[int]:
        return [self.forest.matched_pages(request) for request in requests]

    def hold(self, *names: int, namespace: Namespace = None) -> tuple[int | bytes, bytes]:
        """Somebody computes the last of these pages; returns what to release."""
        sequence = self.cache.open([*pages(*names), 0], namespace)
        assert sequence.matched_len == (len(names) - 1) * PAGE_SIZE
        page = sequence.in_flight
        assert page is not None
        self.forest.hold(*page)
        return page

    def order(self) -> Numbers[int]:
        """Numbers in the order in which they are offered when each leaves at once."""
        numbers = []
        while (request := self.first()) is not None:
            numbers.append(request.number)
            self.forest.remove(request)
        return numbers
