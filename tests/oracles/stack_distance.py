"""LRU hits of a sequential replay at every capacity, from one pass over stack distances.

A request is the path of its full pages, root first; an item of a path is a page identity (equal
items are equal pages *with equal prefixes*; `chained` makes such items from plain page contents).
Serving one request after the other, with the whole path touched tail to head, page LRU is a stack
algorithm (Mattson et al. 1970): a page hits at capacity `M` iff fewer than `M` pages stand before
it in the stack *as it was before the request*. This module knows nothing of trees, locks or pools.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence

Path = Sequence[Hashable]


class _Fenwick:
    """Counts of live stamps `1 … size`; both operations O(log size)."""

    def __init__(self, size: int) -> None:
        self._sums = [0] * (size + 1)

    def add(self, stamp: int, amount: int) -> None:
        sums = self._sums
        while stamp < len(sums):
            sums[stamp] += amount
            stamp += stamp & -stamp

    def up_to(self, stamp: int) -> int:
        sums = self._sums
        total = 0
        while stamp:
            total += sums[stamp]
            stamp &= stamp - 1
        return total


def chained(paths: Sequence[Path]) -> list[list[int]]:
    """Give every distinct prefix of the paths a number, so that equal items mean equal prefixes."""
    numbers: dict[tuple[int, Hashable], int] = {}
    chains: list[list[int]] = []
    for path in paths:
        parent, chain = -1, []
        for page in path:
            parent = numbers.setdefault((parent, page), len(numbers))
            chain.append(parent)
        chains.append(chain)
    return chains


def stack_distances(paths: Sequence[Path]) -> Iterator[list[int | None]]:
    """Yield, request by request, how many items stand before each of its items in the LRU stack.

    `None` stands for an item never seen before. All distances of a request are read before any of
    its items is touched. O(N log N) in the total number N of items.

    Raises:
        ValueError: a path names an item twice (then its items are not identities of prefixes).
    """
    stamps: dict[Hashable, int] = {}
    order = _Fenwick(sum(map(len, paths)))
    clock = 0
    for path in paths:
        if len(set(path)) != len(path):
            raise ValueError(f"a path must not name an item twice: {list(path)!r}")
        yield [len(stamps) - order.up_to(stamps[item]) if item in stamps else None for item in path]
        for item in path:
            if item in stamps:
                order.add(stamps[item], -1)
        for item in reversed(path):
            clock += 1
            stamps[item] = clock
            order.add(clock, 1)


def lru_hits(
    paths: Sequence[Path], capacities: Sequence[int], *, pages_per_item: int = 1
) -> Mapping[int, list[int]]:
    """Return, for every capacity, the pages each request finds cached.

    Args:
        paths: requests in order; each the identities of its items, root first.
        capacities: cache sizes in pages. Exact for each that holds the longest request.
        pages_per_item: pages that one item stands for, when every request has all pages of an
            item or none (a 512-token trace block at page size 16: 32). The pages of an item are
            touched together, so they stay neighbours in the stack and one distance serves them all.

    Returns:
        Capacity to a list of hit pages, one number a request.

    Raises:
        ValueError: a capacity is smaller than the longest request.
    """
    longest = max(map(len, paths), default=0) * pages_per_item
    for capacity in capacities:
        if capacity < longest:
            raise ValueError(f"capacity {capacity} < longest request of {longest} pages")
    hits: dict[int, list[int]] = {capacity: [] for capacity in capacities}
    for distances in stack_distances(paths):
        before = [d * pages_per_item for d in distances if d is not None]
        for capacity, found in hits.items():
            found.append(sum(min(max(capacity - d, 0), pages_per_item) for d in before))
    return hits


def naive_lru_hits(paths: Sequence[Path], capacity: int) -> list[int]:
    """Return the same hits from a plain list, most recent page first; O(n) a page touched."""
    stack: list[Hashable] = []
    hits: list[int] = []
    for path in paths:
        cached = stack[:capacity]
        hits.append(sum(page in cached for page in path))
        stack = [*path, *(page for page in stack if page not in path)]
    return hits


def simulated_lru_hits(paths: Sequence[Path], capacity: int) -> list[int]:
    """Return the same hits from a simulated cache that evicts its oldest page not in use.

    Nothing here rests on stacks: the cache loses pages for good, one at a time, just when the
    missing pages of a request need their room.
    """
    cached: dict[Hashable, tuple[int, int]] = {}
    hits: list[int] = []
    for number, path in enumerate(paths):
        hits.append(sum(page in cached for page in path))
        missing = len(path) - hits[-1]
        while len(cached) + missing > capacity:
            del cached[min((page for page in cached if page not in path), key=cached.__getitem__)]
        cached.update({page: (number, -depth) for depth, page in enumerate(path)})
    return hits
