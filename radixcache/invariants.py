"""`check`: every invariant of a cache by name, all violations in one error."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from radixcache.cache import PrefixCache
from radixcache.errors import InvariantViolation
from radixcache.node import PAGE_ID_BYTES, Node, Root
from radixcache.state import CacheState


def check(cache: PrefixCache) -> None:
    """Verify the invariants of `radixcache/README.md` by walking everything.

    Raises:
        InvariantViolation: Names every broken invariant.

    Complexity:
        O(cached tokens + tokens of live sequences).
    """
    state = cache._state
    violations = [line for part in _PARTS for line in part(state)]
    if violations:
        raise InvariantViolation(violations)


def _nodes(state: CacheState) -> list[Node]:
    return [node for root in state.tree.all_roots() for node in state.tree.nodes(root)]


def _ids(pages: bytes) -> list[int]:
    return [int(page) for page in np.frombuffer(pages, dtype=np.int32)]


def _pages_have_one_owner(state: CacheState) -> Iterator[str]:
    owners: dict[int, str] = {}
    claims = [("the free list", state.allocator.free_pages().tolist())]
    claims += [(f"node {node.number}", _ids(node.live_pages())) for node in _nodes(state)]
    claims += [(f"sequence {number}", seq.private_pages()) for number, seq in state.live.items()]
    claims += [("a copy that waits", state.copies.orphans())]
    for owner, pages in claims:
        for page in pages:
            if page in owners:
                yield f"I1 page {page} belongs to {owners[page]} and to {owner}"
            owners[page] = owner
    first = state.config.first_page
    expected = set(range(first, first + state.config.num_pages))
    for page in sorted(expected - owners.keys()):
        yield f"I1 page {page} belongs to nobody"
    for page in sorted(owners.keys() - expected):
        yield f"I1 page {page} of {owners[page]} is not of this pool"
    free_marks = np.flatnonzero(state.allocator._is_free) + first
    if sorted(claims[0][1]) != free_marks.tolist():
        yield "I1 the free list and the marks of free pages differ"


def _paths_hold_their_tokens(state: CacheState) -> Iterator[str]:
    for number, seq in state.live.items():
        pages, tokens, node = [], [], seq._node
        while node.parent is not None:
            pages.append(node.live_pages())
            tokens.append(node.live_edge())
            node = node.parent
        if not isinstance(node, Root) or node not in state.tree.all_roots():
            yield f"I5 sequence {number} holds a node that is not reachable"
        if b"".join(reversed(pages)) != seq._table[: seq._num_published].tobytes():
            yield f"I2 the page table of sequence {number} does not name the pages of its path"
        published = seq._num_published * state.page_bytes
        if b"".join(reversed(tokens)) != seq._known(0, published):
            yield f"I8 the path of sequence {number} holds other tokens than it knows"


def _locks_are_held(state: CacheState) -> Iterator[str]:
    holders: Counter[int] = Counter(id(seq._node) for seq in state.live.values())
    sources = {id(source): source for seq in state.live.values() for source in seq._sources}
    sources |= {id(seq._offer[0]): seq._offer[0] for seq in state.live.values() if seq._offer}
    holders.update(id(source.node) for source in sources.values() if source.node is not None)
    for node in [*state.tree.all_roots(), *_nodes(state)]:
        children = (node.children or {}).values()
        expected = holders[id(node)] + sum(child.lock_count > 0 for child in children)
        if node.lock_count != expected:
            yield (
                f"I3 node {node.number} is locked {node.lock_count} times, "
                f"holders and locked children: {expected}"
            )


def _counters_are_true(state: CacheState) -> Iterator[str]:
    tree, nodes = state.tree, _nodes(state)
    found = {
        "num_nodes": len(nodes),
        "num_pages": sum(node.num_pages for node in nodes),
        "num_locked_pages": sum(node.num_pages for node in nodes if node.lock_count),
    }
    for name, value in found.items():
        if getattr(tree, name) != value:
            yield f"I4 {name} is {getattr(tree, name)}, a walk finds {value}"
    waiting = Counter(seq._flight for seq in state.live.values() if seq._flight is not None)
    if dict(waiting) != state.in_flight._counts:
        yield "I4 the register of pages in flight does not match the live sequences"
    counters = state.counters
    if counters.matched_tokens + sum(counters.missed_tokens.values()) != counters.prompt_tokens:
        yield "I10 matched and missed tokens do not sum to the prompt tokens"


def _order_holds_the_idle_leaves(state: CacheState) -> Iterator[str]:
    tree = state.tree
    ordered = tree.order.nodes()
    idle = [node for node in _nodes(state) if not node.children and not node.lock_count]
    if {id(node) for node in ordered} != {id(node) for node in idle} or len(ordered) != len(idle):
        yield f"I6 {len(ordered)} leaves stand in the eviction order, {len(idle)} are evictable"
    for node in ordered:
        if node.entry is None or node.entry[0] != tree.policy.rank(node):
            yield f"I6 node {node.number} stands at another rank than its own"


def _links_are_sound(state: CacheState) -> Iterator[str]:
    for parent in [*state.tree.all_roots(), *_nodes(state)]:
        for first_page, child in (parent.children or {}).items():
            where = f"I5 node {child.number} below node {parent.number}"
            if child.parent is not parent or child.root is not parent.root:
                yield f"{where} names another parent or root"
            if child.edge[: state.page_bytes] != first_page or child.start != parent.end:
                yield f"{where} is filed under another page or depth"
            if child.num_pages < 1 or (child.slack and child.children):
                yield f"{where} is empty, or has children behind cut-off pages"
            stored = child.num_pages + child.slack
            if len(child.edge) != stored * state.page_bytes or len(child.pages) != stored * PAGE_ID_BYTES:
                yield f"{where} has {len(child.edge)} bytes of tokens and {len(child.pages)} of page ids"
        if parent.hot is not None and parent.hot not in (parent.children or {}).values():
            yield f"I5 node {parent.number} remembers a child it does not have"
    for root in state.tree.all_roots():
        if not root.children and not root.lock_count:
            yield f"I5 the root of {root.namespace!r} is empty, idle and still there"


def _sequences_are_within_bounds(state: CacheState) -> Iterator[str]:
    page_size = state.page_size
    for number, seq in state.live.items():
        if seq.matched_len % page_size or not 0 <= seq.matched_len < seq.prompt_len:
            yield f"I7 sequence {number} matched {seq.matched_len} of {seq.prompt_len} tokens"
        if seq.published_len > seq.computed_len:
            yield f"I9 sequence {number} published {seq.published_len} tokens, {seq.computed_len} are written"
        if seq.computed_len > min(seq.num_tokens, seq.reserved_len):
            yield f"I9 sequence {number} has written {seq.computed_len} tokens without room or knowledge"


def _ghosts_stand_on_cached_pages(state: CacheState) -> Iterator[str]:
    cached = {page for node in _nodes(state) for page in _ids(node.live_pages())}
    for anchor in state.ghosts.anchors():
        if isinstance(anchor, int) and anchor not in cached:
            yield f"I5 an eviction record stands on page {anchor}, which is not cached"


_PARTS = (
    _pages_have_one_owner,
    _paths_hold_their_tokens,
    _locks_are_held,
    _counters_are_true,
    _order_holds_the_idle_leaves,
    _links_are_sound,
    _sequences_are_within_bounds,
    _ghosts_stand_on_cached_pages,
)
