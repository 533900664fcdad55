"""Runs of pages that are gone, found again by the request that asks for them, page by page."""

from collections import OrderedDict
from collections.abc import Container
from typing import Final, NamedTuple, TypeAlias

from radixcache.compare import common_units
from radixcache.node import Node

MAX_STALE: Final = 2
"""Stale runs that are dropped for each one that comes."""

GhostKey: TypeAlias = tuple[bytes, int, bytes]
"""Namespace, depth and first page of what was evicted."""


def ghost_key(node: Node, first: int = 0) -> GhostKey:
    """Where the pages of `node` from `first` on would be missing."""
    page_bytes = node.page_bytes
    return node.root.key, node.start + first, node.edge[first * page_bytes : (first + 1) * page_bytes]


class _Run(NamedTuple):
    stamp: int
    stop: int
    """Where it ends. Unit: pages from the root."""
    base: int
    """Where `edge` begins."""
    edge: bytes
    """The edge it was on, shared with the node as long as that lives."""


class GhostRuns:
    """Runs by where they would be missing, oldest evictions forgotten first.

    Args:
        max_runs: How many are kept.

    Complexity:
        `add`: O(1). `take`: O(bytes of the run) memcmp and memcpy. Memory: the tokens of the edges that
        they were on.
    """

    def __init__(self, max_runs: int) -> None:
        self._max_runs = max_runs
        self._runs: OrderedDict[GhostKey, _Run] = OrderedDict()
        self._trimmed: tuple[Node, GhostKey] | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, node: Node, key: GhostKey, alive: Container[int]) -> None:
        """`node` goes, or its tail from where `key` says; `alive`: stamps of runs that are still of use."""
        runs = self._runs
        for _ in range(MAX_STALE):
            oldest = next(iter(runs), None)
            if oldest is None or runs[oldest].stamp in alive:
                break
            del runs[oldest]
        run = _Run(node.stamp, node.end, node.start, node.edge)
        if key[1] > node.start:
            run = self._joined(node, key[1], run)
            self._trimmed = node, key
        runs[key] = run
        if len(runs) > self._max_runs:
            runs.popitem(last=False)

    def _joined(self, node: Node, depth: int, run: _Run) -> _Run:
        """`run` with what was trimmed of the same node just before, if it is of the same use."""
        if self._trimmed is None or self._trimmed[0] is not node:
            return run
        before = self._runs.get(self._trimmed[1])
        if before is None or before.stamp != run.stamp or before.base > depth:
            return run
        del self._runs[self._trimmed[1]]
        return before

    def take(self, node: Node, at: int) -> tuple[int, int]:
        """The pages of `node` from depth `at` on that a run had. Returns: its stamp and how many, 0 if none.

        What the run had beyond them stays.
        """
        key = ghost_key(node, at - node.start)
        run = self._runs.pop(key, None)
        if run is None:
            return 0, 0
        size = len(key[2])
        pages = run.edge[(at - run.base) * size : (run.stop - run.base) * size]
        end = node.num_pages * size
        same = common_units(node.edge, (at - node.start) * size, end, pages, size)
        if at + same < run.stop:
            self._runs[key[0], at + same, pages[same * size : (same + 1) * size]] = run
        return run.stamp, same
