"""Everything that must hold within a forest of waiting prompts, found anew by walking it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from radixcache import PrefixCache, Tokens
from scheduler.policies.base import ForestPolicy
from scheduler.waiting import WaitingForest
from scheduler.waiting.columns import RequestColumns
from scheduler.waiting.node import NOBODY, WaitNode
from scheduler.waiting.order import PointOrder
from scheduler.waiting.points import HeapedPoints, PairedPoints, Points
from scheduler.waiting.table import NodeTable

MOST_ENTRIES_A_REQUEST = 24


def check_forest(policy: ForestPolicy, cache: PrefixCache) -> None:
    forest, order = policy.forest, policy.forest._order
    nodes = list(walk(forest))
    for node in nodes:
        check_links(forest, node)
        check_cached(forest, cache, node)
        assert forest._anchors.is_held(node) == is_held(forest, node)
    check_maps(forest, nodes)
    assert set(forest._anchors.held()) == {node for node in nodes if is_held(forest, node)}
    if isinstance(order, RequestColumns):
        check_columns(order, forest, nodes)
    else:
        assert isinstance(order, PointOrder)
        check_bests(order, forest, nodes)
    check_sizes(forest, nodes)


def walk(forest: WaitingForest) -> Iterator[WaitNode]:
    pending: list[WaitNode] = list(forest._anchors.roots.values())
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children.values())


def edge_of(forest: WaitingForest, node: WaitNode) -> bytes:
    size = forest._page_bytes
    return node.source[node.start * size : node.end * size]


def prefix_of(forest: WaitingForest, node: WaitNode) -> bytes:
    runs = []
    at: WaitNode | None = node
    while at is not None:
        runs.append(edge_of(forest, at))
        at = at.parent
    return b"".join(reversed(runs))


def is_held(forest: WaitingForest, node: WaitNode) -> bool:
    """By looking up the next uncached page behind the page in front of it."""
    if node.is_full:
        return False
    if node.cached:
        anchor: int | bytes | None = node.page
    else:
        parent = node.parent
        assert parent is not None
        if not parent.is_full:
            return False
        anchor = parent.page if parent.parent is not None else parent.root.key
    size = forest._page_bytes
    pages = forest._anchors._in_flight.get(anchor, {})
    return edge_of(forest, node)[node.cached * size : (node.cached + 1) * size] in pages


def is_offered_cold(forest: WaitingForest, node: WaitNode) -> bool:
    return node.is_cold and node.best != NOBODY and not is_held(forest, node)


def best_cold_child(forest: WaitingForest, node: WaitNode) -> WaitNode | None:
    offered = [child for child in node.children.values() if is_offered_cold(forest, child)]
    return min(offered, key=lambda child: child.entry, default=None)


def check_links(forest: WaitingForest, node: WaitNode) -> None:
    size = forest._page_bytes
    edge = edge_of(forest, node)
    assert len(edge) == node.num_pages * size
    if node.parent is not None:
        assert any(node.source is request.prompt.data for request in below(node)), "a prompt that waits"
        assert all(request.prompt.data.startswith(edge, node.start * size) for request in below(node))
    assert node.weight == len(node.requests) + sum(child.weight for child in node.children.values()) > 0
    assert list(node.requests) == sorted(node.requests)
    for first_page, child in node.children.items():
        assert edge_of(forest, child)[:size] == first_page == child.first_page
        assert child.parent is node
        assert child.root is node.root
        assert child.start == node.start + node.num_pages
    if node.parent is not None:
        assert node.num_pages
        assert node.requests or len(node.children) >= 2, "a node that should have been merged or removed"


def check_cached(forest: WaitingForest, cache: PrefixCache, node: WaitNode) -> None:
    assert 0 <= node.cached <= node.num_pages
    assert (node.page is None) == (node.cached == 0)
    if node.parent is not None and node.cached:
        assert node.parent.is_full
        namespace = next(iter(below(node))).namespace
        prompt = Tokens.trusted(prefix_of(forest, node) + bytes(4))
        pages = cache.peek(prompt, namespace).pages
        assert len(pages) == node.match
        assert pages[-1] == node.page


def below(node: WaitNode) -> Iterator:
    yield from node.requests.values()
    for child in node.children.values():
        yield from below(child)


def check_heap(node: WaitNode, offered: list[WaitNode]) -> None:
    heap = node.cold
    assert all(heap[(place - 1) // 2] <= heap[place] for place in range(1, len(heap)))
    assert {id(child.entry) for child in offered} <= {id(entry) for entry in heap}


def check_maps(forest: WaitingForest, nodes: list[WaitNode]) -> None:
    anchors = forest._anchors
    with_page = [node for node in nodes if node.page is not None]
    assert anchors._at_page == {node.page: node for node in with_page}
    assert len(anchors._at_page) == len(with_page)
    assert anchors._is_end.nonzero()[0].tolist() == sorted(anchors._at_page)
    assert all(root.key == key and root.root is root for key, root in anchors.roots.items())
    assert forest._node_of == {number: node for node in nodes for number in node.requests}
    assert all(pages and min(pages.values()) > 0 for pages in anchors._in_flight.values())


def check_bests(order: PointOrder, forest: WaitingForest, nodes: list[WaitNode]) -> None:
    for node in nodes:
        assert node.best == order._choice.best(node, best_cold_child(forest, node))
        is_offered = is_offered_cold(forest, node)
        assert node.entry == ((*order._choice.rank(node), node.uid, node) if is_offered else None)
        check_heap(node, [child for child in node.children.values() if is_offered_cold(forest, child)])
    offered = {
        node for node in nodes if not node.is_cold and node.best != NOBODY and not is_held(forest, node)
    }
    check_points(order._points, offered)


def check_points(points: Points, offered: set[WaitNode]) -> None:
    """The points that are kept are those, each under the key that it has now."""
    if isinstance(points, PairedPoints):
        for each in points._both:
            check_points(each, offered)
    else:
        assert isinstance(points, HeapedPoints)
        assert set(points._entries) == offered
        for node, entry in points._entries.items():
            assert entry == (*points._key(node), node.uid, node)
        heap = points._heap
        assert all(heap[(place - 1) // 2] <= heap[place] for place in range(1, len(heap)))
        assert {id(entry) for entry in points._entries.values()} <= {id(entry) for entry in heap}


def check_columns(columns: RequestColumns, forest: WaitingForest, nodes: list[WaitNode]) -> None:
    """Each request has a row that says how it stands, each node at most one that is written or will be."""
    columns.follow()
    columns.settle()
    assert len(columns) == len(forest)
    numbers = sorted(forest._node_of)
    rows = [columns._rows.row_of(number) for number in numbers]
    assert [columns._rows.number_at(row) for row in rows] == numbers
    for number, row in zip(numbers, rows, strict=True):
        end = forest._node_of[number]
        at, is_barred = end, is_held(forest, end)
        while at.is_cold:
            assert at.parent is not None
            at = at.parent
            is_barred = is_barred or is_held(forest, at)
        request = forest.numbered(number)
        expected = columns._barred if is_barred else columns._make.of(request, at.match)
        assert columns.keys[row] == expected
        assert columns._rows.column(columns._num_own + 1)[row] == columns._table._row_of[end]
    gaps = set(range(len(columns.keys))) - set(rows)
    assert all(columns.keys[row] == columns._barred for row in gaps)
    assert len(gaps) <= len(rows) // 2 + 8
    check_table(columns._table, set(nodes))


def check_table(table: NodeTable, nodes: set[WaitNode]) -> None:
    assert table._row_of.keys() <= nodes
    assert table._unwritten <= nodes
    rows = list(table._row_of.values())
    assert sorted(rows + table._free) == list(range(len(rows) + len(table._free)))
    for node in table._row_of.keys() - table._unwritten:
        row = table._row_of[node]
        assert table._parents[row] == (row if node.parent is None else table._row_of[node.parent])
        assert table._matches[row] == (-1 if node.is_cold else node.match)


def check_sizes(forest: WaitingForest, nodes: list[WaitNode]) -> None:
    num_waiting, num_roots = len(forest), len(forest._anchors.roots)
    assert len(nodes) - num_roots <= 2 * num_waiting
    num_entries = len(nodes) + len(forest._anchors._at_page) + sum(len(node.cold) for node in nodes)
    assert num_entries <= MOST_ENTRIES_A_REQUEST * num_waiting


def check_holds(forest: WaitingForest, led: Iterable[tuple[int | bytes, bytes]]) -> None:
    in_flight = forest._anchors._in_flight
    assert {
        (anchor, page): count for anchor, pages in in_flight.items() for page, count in pages.items()
    } == Counter(led)
