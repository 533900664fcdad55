"""The radix tree of a trace: who used the pages of a path last.

Every edge is a run of pages with one and the same history, so the work goes by edges, not by pages. It must
not know capacities: it never forgets anything.
"""

from typing import Final, NamedTuple

from radixcache.compare import common_units

KEY_BYTES: Final = 4
"""Bytes of a page key."""


class Reuse(NamedTuple):
    """A run of pages of a path that one earlier request was the last to use.

    Attributes:
        previous: Number of that request.
        start: First page of the run, counted from the root.
        stop: Behind its last page.
    """

    previous: int
    start: int
    stop: int


class _Edge:
    """The pages between two branch points, and the children behind them."""

    __slots__ = ("children", "hot", "keys", "last")

    def __init__(self, keys: bytes, last: int) -> None:
        self.keys = keys
        self.last = last
        self.children: dict[bytes, _Edge] = {}
        self.hot: _Edge | None = None


class ReuseTree:
    """Paths of page keys, each inserted with the number of its request.

    As every request uses a path from the root, later ones use shorter and shorter starts of what an earlier
    one left: the runs come with falling `previous`, and what a request was the last to use is always
    the end of its path, a single run.
    """

    def __init__(self) -> None:
        self._roots: dict[bytes, _Edge] = {}

    def use(self, namespace: bytes, path: bytes, request: int) -> list[Reuse]:
        """Insert a path and mark all of it as used by `request`.

        Args:
            namespace: What the path starts from.
            path: Keys of its pages, `KEY_BYTES` each.
            request: A number larger than every one before.

        Returns:
            The runs that were known, from the root on, without gaps; `previous` falls.

        Complexity:
            O(edges on the path) steps + O(pages) memcmp.

        Example:
            >>> tree = ReuseTree()
            >>> a, b, c = (bytes(4 * [number]) for number in range(3))
            >>> tree.use(b"", a + b, 0), tree.use(b"", a + c, 1)
            ([], [Reuse(previous=0, start=0, stop=1)])
            >>> tree.use(b"", a + b + c, 2)
            [Reuse(previous=1, start=0, stop=1), Reuse(previous=0, start=1, stop=2)]
        """
        edge = self._roots.get(namespace)
        if edge is None:
            edge = self._roots[namespace] = _Edge(b"", request)
        runs: list[Reuse] = []
        previous, start, at, end = -1, 0, 0, len(path)
        while at < end:
            child = edge.hot
            if child is None or not path.startswith(child.keys, at):
                child = edge.children.get(path[at : at + KEY_BYTES])
                if child is None:
                    edge.children[path[at : at + KEY_BYTES]] = edge.hot = _Edge(path[at:], request)
                    break
                if not path.startswith(child.keys, at):
                    child = _split(edge, child, common_units(path, at, end, child.keys, KEY_BYTES))
                edge.hot = child
            if child.last != previous:
                if at:
                    runs.append(Reuse(previous, start, at // KEY_BYTES))
                previous, start = child.last, at // KEY_BYTES
            child.last = request
            at += len(child.keys)
            edge = child
        if at:
            runs.append(Reuse(previous, start, at // KEY_BYTES))
        return runs


def _split(parent: _Edge, edge: _Edge, num_pages: int) -> _Edge:
    """Give the first pages of `edge` to a new edge above it; returns that."""
    cut = num_pages * KEY_BYTES
    upper = _Edge(edge.keys[:cut], edge.last)
    edge.keys = edge.keys[cut:]
    upper.children[edge.keys[:KEY_BYTES]] = upper.hot = edge
    parent.children[upper.keys[:KEY_BYTES]] = upper
    return upper
