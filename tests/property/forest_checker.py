"""Everything that must hold within a forest of waiting prompts, found anew by walking it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from radixcache import PrefixCache, Tokens
from scheduler.policies.base import ForestPolicy
from scheduler.waiting import WaitingForest
from scheduler.waiting.columns import RequestColumns
from scheduler.waiting.node import NOBODY, WaitNode
from scheduler.waiting.points import GroupedPoints, PairedPoints, Points, SortedPoints

MOST_ENTRIES_A_REQUEST = 24


def check_forest(policy: ForestPolicy, cache: PrefixCache) -> None:
    forest, choice = policy.forest, policy.forest._choice
    nodes = list(walk(forest))
    for node in nodes:
        check_links(forest, node)
        check_cached(forest, cache, node)
        top = best_cold_child(forest, node)
        assert node.best == choice.best(node, top)
        if node.is_cold:
            assert node.rank == choice.rank(node)
        check_heap(node, [child for child in node.children.values() if is_offered_cold(forest, child)])
    check_maps(forest, nodes)
    offered = {
        node for node in nodes if not node.is_cold and node.best != NOBODY and not is_held(forest, node)
    }
    if isinstance(forest._points, RequestColumns):
        check_columns(forest._points, forest, nodes)
    else:
        check_points(forest._points, offered)
    check_sizes(forest, nodes)


def walk(forest: WaitingForest) -> Iterator[WaitNode]:
    pending: list[WaitNode] = list(forest._roots.values())
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children.values())


def prefix_of(node: WaitNode) -> bytes:
    runs = []
    at: WaitNode | None = node
    while at is not None:
        runs.append(at.edge)
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
    return (anchor, node.edge[node.cached * size : (node.cached + 1) * size]) in forest._in_flight


def is_offered_cold(forest: WaitingForest, node: WaitNode) -> bool:
    return node.is_cold and node.best != NOBODY and not is_held(forest, node)


def best_cold_child(forest: WaitingForest, node: WaitNode) -> WaitNode | None:
    offered = [child for child in node.children.values() if is_offered_cold(forest, child)]
    return min(offered, key=lambda child: (child.rank, child.uid), default=None)


def check_links(forest: WaitingForest, node: WaitNode) -> None:
    size = forest._page_bytes
    assert len(node.edge) == node.num_pages * size
    assert node.weight == len(node.requests) + sum(child.weight for child in node.children.values()) > 0
    assert list(node.requests) == sorted(node.requests)
    for first_page, child in node.children.items():
        assert child.edge[:size] == first_page
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
        prompt = Tokens.trusted(prefix_of(node) + bytes(4))
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
    entries = {(rank, uid) for rank, uid, _ in heap}
    assert all((child.rank, child.uid) in entries for child in offered)


def check_maps(forest: WaitingForest, nodes: list[WaitNode]) -> None:
    at_page: dict[int, set[WaitNode]] = {}
    for node in nodes:
        if node.page is not None:
            at_page.setdefault(node.page, set()).add(node)
    assert {page: set(there) for page, there in forest._at_page.items()} == at_page
    roots = list(forest._roots.values())
    assert all(forest._roots[root.group, root.key] is root for root in roots)
    by_key = {
        key: {root for root in roots if root.key == key} for key in {root.key for root in roots} - {None}
    }
    assert {key: set(there) for key, there in forest._at_key.items()} == by_key
    assert forest._node_of == {number: node for node in nodes for number in node.requests}
    assert all(count > 0 for count in forest._in_flight.values())


def check_points(points: Points, offered: set[WaitNode]) -> None:
    """The points that are kept are those, each under the key that it has now."""
    if isinstance(points, PairedPoints):
        for each in points._both:
            check_points(each, offered)
    elif isinstance(points, GroupedPoints):
        groups = {node.root.group for node in offered}
        assert set(points.groups) == groups
        for group in groups:
            check_points(points.groups[group], {node for node in offered if node.root.group == group})
    else:
        assert isinstance(points, SortedPoints)
        assert set(points._entries) == offered
        entries = [(points._key(node), node.uid, node) for node in offered]
        assert sorted(entries) == list(points._order)


def check_columns(columns: RequestColumns, forest: WaitingForest, nodes: list[WaitNode]) -> None:
    """Each node has a row that says how it stands, each request one that says where it ends."""
    assert set(columns._row_of_node) == set(nodes)
    rows = list(columns._row_of_node.values())
    assert sorted(rows + columns._free) == list(range(len(rows) + len(columns._free)))
    for node, row in columns._row_of_node.items():
        parent = row if node.parent is None else columns._row_of_node[node.parent]
        match = -1 if node.is_cold else node.match
        assert columns._nodes[:2, row].tolist() == [parent, match]
        is_next_above = node.parent is None or not node.parent.is_cold
        assert bool(columns._nodes[2, row]) == is_held(forest, node) or not is_next_above
    assert {request.number: row for row, request in enumerate(columns._requests)} == columns._row_of
    for number, row in columns._row_of.items():
        assert columns._ends[row] == columns._row_of_node[forest._node_of[number]]


def check_sizes(forest: WaitingForest, nodes: list[WaitNode]) -> None:
    num_waiting, num_roots = len(forest), len(forest._roots)
    assert len(nodes) - num_roots <= 2 * num_waiting
    num_entries = len(nodes) + len(forest._at_page) + sum(len(node.cold) for node in nodes)
    assert num_entries <= MOST_ENTRIES_A_REQUEST * num_waiting


def check_holds(forest: WaitingForest, led: Iterable[tuple[int | bytes, bytes]]) -> None:
    assert forest._in_flight == Counter(led)
