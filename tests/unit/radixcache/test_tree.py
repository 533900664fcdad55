from collections.abc import Iterator

import pytest

import radixcache.tree
from radixcache import CacheConfig, PrefixCache, check
from radixcache.eviction import LRU
from radixcache.node import Node
from tests.steps import begin, make_cache, matched, put, run_of, tree_of

A, B, C, D = run_of(100, 2), run_of(200, 2), run_of(300, 2), run_of(400, 2)


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=12, page_size=2)
    yield cache
    check(cache)


# Splits and merges


def test_a_leaf_holds_the_whole_run(cache: PrefixCache) -> None:
    put(cache, A + B + C)
    assert tree_of(cache) == {(*A, *B, *C): 0}


def test_a_branch_splits_at_the_page_where_two_prompts_part(cache: PrefixCache) -> None:
    put(cache, A + B + C)
    put(cache, A + B + D)
    assert tree_of(cache) == {(*A, *B): 0, (*A, *B, *C): 0, (*A, *B, *D): 0}


def test_two_edges_of_a_node_differ_within_their_first_page(cache: PrefixCache) -> None:
    put(cache, [1, 2, *B])
    put(cache, [1, 3, *B])
    assert tree_of(cache) == {(1, 2, *B): 0, (1, 3, *B): 0}


def test_holders_stay_with_the_lower_half_of_a_split(cache: PrefixCache) -> None:
    deep = begin(cache, [*A, *B, 0])
    deep.publish()
    high = cache.open([*A, *C, 0])
    assert tree_of(cache) == {(*A,): 2, (*A, *B): 1}
    deep.close()
    assert tree_of(cache) == {(*A,): 1, (*A, *B): 0}
    high.abort()
    assert tree_of(cache) == {(*A, *B): 0}


def test_splitting_an_idle_edge_locks_the_upper_half_alone(cache: PrefixCache) -> None:
    put(cache, A + B)
    high = cache.open([*A, 0])
    assert tree_of(cache) == {(*A,): 1, (*A, *B): 0}
    assert cache.pages[2:4] == (1, 1)
    high.abort()


def test_a_chain_merges_when_the_holder_at_its_joint_leaves(cache: PrefixCache) -> None:
    put(cache, A + B)
    cache.open([*A, 0]).abort()
    assert tree_of(cache) == {(*A, *B): 0}


def test_a_chain_merges_when_the_branch_at_its_joint_is_evicted(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, [*A, *C, 0])
    cache.evict(1)
    assert tree_of(cache) == {(*A, *C): 0}


def test_a_chain_does_not_merge_where_the_parent_is_newer(cache: PrefixCache) -> None:
    put(cache, A + B)
    high = cache.open([*A, 0])
    high.reserve(1)
    high.abort()
    assert tree_of(cache) == {(*A,): 0, (*A, *B): 0}


def test_one_touch_of_the_full_path_collapses_what_recency_kept_apart(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, A)
    high = cache.open([*A, 0])
    high.reserve(1)
    high.abort()
    assert len(tree_of(cache)) == 2
    put(cache, A + B + [0])
    assert tree_of(cache) == {(*A, *B): 0}


def test_a_node_with_a_holder_of_its_own_is_not_merged(cache: PrefixCache) -> None:
    high = begin(cache, [*A, 0])
    high.publish()
    put(cache, A + B)
    put(cache, A + C)
    cache.evict(1)
    assert tree_of(cache) == {(*A,): 1, (*A, *C): 0}
    high.abort()
    assert tree_of(cache) == {(*A, *C): 0}


def test_a_locked_chain_merges_where_only_its_end_is_held(cache: PrefixCache) -> None:
    put(cache, A + B)
    deep = cache.open([*A, *B, 0])
    cache.open([*A, 0]).abort()
    assert tree_of(cache) == {(*A, *B): 1}
    deep.abort()


def test_publishing_merges_nothing_and_closing_merges_the_chain_with_one_join(
    cache: PrefixCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins = []
    absorb = radixcache.tree.RadixTree._absorb
    monkeypatch.setattr(
        radixcache.tree.RadixTree,
        "_absorb",
        lambda tree, low, run: (joins.append(len(run)), absorb(tree, low, run))[1],
    )
    seq = cache.open(run_of(0, 20))
    for _ in range(10):
        seq.reserve(2)
        seq.advance(2)
        seq.publish()
    assert (cache.stats.num_nodes, joins) == (10, [])
    seq.close()
    assert (cache.stats.num_nodes, joins) == (1, [9])


# Locks


def test_a_lock_count_is_locked_children_plus_own_holders(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, A + C)
    seqs = [cache.open([*A, *B, 0]), cache.open([*A, *B, 0]), cache.open([*A, *C, 0]), cache.open([*A, 0])]
    assert tree_of(cache) == {(*A,): 3, (*A, *B): 2, (*A, *C): 1}
    for seq in seqs:
        seq.abort()
    assert set(tree_of(cache).values()) == {0}


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Nodes whose lock count was written."""
    written: list[Node] = []
    slot = Node.lock_count

    class Watched(Node):
        __slots__ = ()

        @property
        def lock_count(self) -> int:
            return slot.__get__(self)

        @lock_count.setter
        def lock_count(self, count: int) -> None:
            written.append(self)
            slot.__set__(self, count)

    monkeypatch.setattr(radixcache.tree, "Node", Watched)
    return written


def branching_path(cache: PrefixCache, depth: int) -> list[int]:
    """A path of `depth` nodes, each with a branch beside it, so that none is merged."""
    path = run_of(0, depth)
    put(cache, path)
    for end in range(1, depth):
        put(cache, [*path[:end], 5000 + end])
    return path


@pytest.mark.parametrize("depth", [2, 20, 200])
def test_locking_a_hot_prefix_visits_one_node_whatever_its_depth(visits: list[Node], depth: int) -> None:
    cache = make_cache(num_pages=3 * depth, page_size=1)
    path = branching_path(cache, depth)
    first = cache.open([*path, 1])
    visits.clear()
    others = [cache.open([*path, 1]) for _ in range(1000)]
    assert len(visits) == 1000
    for other in others:
        other.abort()
    assert len(visits) == 2000
    first.abort()
    check(cache)


def test_locking_walks_up_to_the_first_locked_ancestor_only(visits: list[Node]) -> None:
    cache = make_cache(num_pages=90, page_size=1)
    path = branching_path(cache, 30)
    shallow = cache.open([*path[:25], 1])
    visits.clear()
    deep = cache.open([*path, 1])
    assert len(visits) == 6
    visits.clear()
    deep.abort()
    assert len(visits) == 6
    shallow.abort()


# Eviction


def test_the_last_victim_is_trimmed_at_its_tail(cache: PrefixCache) -> None:
    put(cache, A)
    put(cache, B + C + D)
    assert cache.evict(2) == 2
    assert tree_of(cache) == {(*B, *C): 0}


def test_eviction_stops_where_everything_is_locked(cache: PrefixCache) -> None:
    put(cache, A)
    seq = begin(cache, [*B, 0])
    seq.publish()
    assert cache.evict(99) == 1
    assert tree_of(cache) == {(*B,): 1}


def test_a_parent_inherits_the_recency_of_a_child_that_went(cache: PrefixCache) -> None:
    put(cache, A)
    seq = begin(cache, A + B)
    put(cache, C)
    seq.close()
    holders = [cache.open([*A, 0]), cache.open([*C, 0])]
    cache.evict(1)
    assert tree_of(cache) == {(*A,): 1, (*C,): 1}
    for holder in holders:
        holder.abort()
    cache.evict(1)
    assert tree_of(cache) == {(*A,): 0}


def test_a_parent_becomes_evictable_when_its_last_child_went(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, A + C)
    assert [cache.evict(1) for _ in range(4)] == [1, 1, 1, 0]
    assert tree_of(cache) == {}


def test_a_trimmed_edge_keeps_at_most_as_many_leftovers_as_live_pages() -> None:
    cache = make_cache(num_pages=100, page_size=2)
    put(cache, range(200))
    while cache.evict(1):
        for root in cache._state.tree.all_roots():
            for node in cache._state.tree.nodes(root):
                assert len(node.edge) <= 2 * len(node.live_edge())
                assert len(node.pages) <= 2 * len(node.live_pages())
        check(cache)


def test_a_trimmed_leaf_grows_and_matches_as_any_other(cache: PrefixCache) -> None:
    put(cache, A + B + C + D)
    cache.evict(1)
    assert matched(cache, A + B + C + D) == 6
    put(cache, A + B + C + A)
    assert matched(cache, A + B + C + A) == 8
    assert tree_of(cache) == {(*A, *B, *C, *A): 0}


class CountingLRU(LRU):
    ranked = 0

    def rank(self, node: Node) -> int:
        CountingLRU.ranked += 1
        return super().rank(node)


@pytest.mark.parametrize("num_leaves", [100, 3000])
def test_a_single_eviction_ranks_few_leaves_even_after_all_were_touched(num_leaves: int) -> None:
    cache = PrefixCache(CacheConfig(num_pages=2 * num_leaves, page_size=1, eviction=CountingLRU))
    for number in range(num_leaves):
        put(cache, [number, 9])
    for number in range(num_leaves):
        put(cache, [number, 9, 9])
    CountingLRU.ranked = 0
    cache.evict(1)
    assert CountingLRU.ranked <= 4
    check(cache)


# Roots


def test_an_empty_unlocked_root_is_dropped(cache: PrefixCache) -> None:
    put(cache, A, "one")
    seq = cache.open(A, "two")
    assert cache.stats.num_namespaces == 2
    seq.abort()
    cache.evict(1)
    assert cache.stats.num_namespaces == 0


def test_peek_makes_no_root(cache: PrefixCache) -> None:
    cache.peek(A, "one")
    assert cache.stats.num_namespaces == 0


def test_all_roots_share_pool_and_order(cache: PrefixCache) -> None:
    put(cache, A, "one")
    put(cache, A, "two")
    put(cache, [*A, 0], "one")
    cache.evict(1)
    assert (matched(cache, A, "one"), matched(cache, A, "two")) == (2, 0)


# Depth


def deep_chain(num_tokens: int) -> None:
    cache = make_cache(num_pages=num_tokens, page_size=1)
    seq = cache.open([0])
    seq.reserve(num_tokens)
    for number in range(1, num_tokens):
        seq.advance(1)
        seq.publish()
        seq.append([number % 7])
    seq.advance(1)
    seq.publish()
    assert cache.stats.num_nodes == num_tokens
    other = cache.open([0, *(number % 7 for number in range(1, num_tokens)), 9])
    assert other.matched_len == num_tokens
    other.abort()
    check(cache)
    seq.close()
    assert cache.stats.num_nodes == 1
    assert cache.evict(num_tokens) == num_tokens
    check(cache)


def test_a_path_of_many_nodes_needs_no_recursion() -> None:
    deep_chain(30_000)


@pytest.mark.soak
def test_a_path_of_a_million_nodes_needs_no_recursion() -> None:
    deep_chain(1_000_000)
