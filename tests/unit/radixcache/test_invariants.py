"""`check` finds each kind of damage, by name, and all of it at once."""

from array import array
from collections.abc import Callable
from typing import Any

import pytest

from radixcache import PrefixCache, check
from radixcache.errors import InvariantViolation
from radixcache.node import Node
from tests.steps import begin, make_cache, put, run_of

A, B, C, D = (run_of(100 * number, 2) for number in (1, 2, 3, 4))


def make() -> tuple[PrefixCache, Any]:
    """A cache with a branch, an evicted page, another namespace and a live sequence with private pages."""
    cache = make_cache(num_pages=16, page_size=2)
    put(cache, A + B)
    put(cache, A + C)
    put(cache, D + C)
    put(cache, B, "other")
    seq = begin(cache, [*A, *D, 1])
    cache.open([*A, *B, 0]).abort()
    cache.evict(1)
    check(cache)
    return cache, seq


def leaf(cache: PrefixCache) -> Node:
    return cache._state.tree.order.nodes()[-1]


def locked(cache: PrefixCache) -> Node:
    return next(
        node
        for root in cache._state.tree.all_roots()
        for node in cache._state.tree.nodes(root)
        if node.lock_count
    )


def forget_free_page(cache: PrefixCache, seq: Any) -> None:
    cache._state.allocator.alloc(1)


def free_a_cached_page(cache: PrefixCache, seq: Any) -> None:
    cache._state.allocator.free(array("i", [leaf(cache).last_page()]))


def name_a_foreign_page(cache: PrefixCache, seq: Any) -> None:
    seq._table[seq._num_published] = 77


def mark_a_free_page_taken(cache: PrefixCache, seq: Any) -> None:
    allocator = cache._state.allocator
    allocator._is_free[allocator.free_pages()[0]] = False


def swap_pages_in_a_table(cache: PrefixCache, seq: Any) -> None:
    seq._table[0] = 15


def change_known_tokens(cache: PrefixCache, seq: Any) -> None:
    seq._prompt = bytes(4) + seq._prompt[4:]


def forget_a_lock(cache: PrefixCache, seq: Any) -> None:
    locked(cache).lock_count = 0


def lock_once_more(cache: PrefixCache, seq: Any) -> None:
    locked(cache).lock_count += 1


def miscount_pages(cache: PrefixCache, seq: Any) -> None:
    cache._state.tree.num_pages += 1


def miscount_locked_pages(cache: PrefixCache, seq: Any) -> None:
    cache._state.tree.num_locked_pages -= 1


def miscount_nodes(cache: PrefixCache, seq: Any) -> None:
    cache._state.tree.num_nodes -= 1


def count_a_lookup_twice(cache: PrefixCache, seq: Any) -> None:
    cache._state.counters.prompt_tokens += 5


def forget_who_computes(cache: PrefixCache, seq: Any) -> None:
    cache._state.in_flight._counts.clear()


def drop_a_leaf_from_the_order(cache: PrefixCache, seq: Any) -> None:
    cache._state.tree.order.discard(leaf(cache))


def touch_without_reordering(cache: PrefixCache, seq: Any) -> None:
    leaf(cache).stamp += 100


def unlink_a_parent(cache: PrefixCache, seq: Any) -> None:
    leaf(cache).parent = None


def misplace_a_child(cache: PrefixCache, seq: Any) -> None:
    leaf(cache).start += 1


def cut_an_edge(cache: PrefixCache, seq: Any) -> None:
    node = leaf(cache)
    node.edge = node.edge[:-4]


def remember_a_stranger(cache: PrefixCache, seq: Any) -> None:
    root = cache._state.tree.all_roots()[0]
    root.hot = Node(99, b"", b"", 0)


def keep_an_empty_root(cache: PrefixCache, seq: Any) -> None:
    cache._state.tree.root(b"s4:idle", "idle")


def match_half_a_page(cache: PrefixCache, seq: Any) -> None:
    seq.matched_len += 1


def match_the_whole_prompt(cache: PrefixCache, seq: Any) -> None:
    seq.matched_len = 6


def publish_what_is_not_written(cache: PrefixCache, seq: Any) -> None:
    seq.computed_len = 0


def compute_past_the_pages(cache: PrefixCache, seq: Any) -> None:
    seq.computed_len = 99


def keep_a_record_of_a_page_that_went(cache: PrefixCache, seq: Any) -> None:
    cache._state.ghosts.evicted(int(cache._state.allocator.free_pages()[0]), b"next", 0)


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        (forget_free_page, "I1 page .* belongs to nobody"),
        (free_a_cached_page, "I1 page .* belongs to the free list and to node"),
        (name_a_foreign_page, "I1 page 77 of sequence .* is not of this pool"),
        (mark_a_free_page_taken, "I1 the free list and the marks of free pages differ"),
        (swap_pages_in_a_table, "I2 the page table of sequence"),
        (change_known_tokens, "I8 the path of sequence"),
        (forget_a_lock, "I3 node .* is locked 0 times, holders and locked children: 1"),
        (lock_once_more, "I3 node .* is locked 2 times"),
        (miscount_pages, "I4 num_pages is"),
        (miscount_locked_pages, "I4 num_locked_pages is"),
        (miscount_nodes, "I4 num_nodes is"),
        (count_a_lookup_twice, "I10 matched and missed tokens"),
        (forget_who_computes, "I4 the register of pages in flight"),
        (drop_a_leaf_from_the_order, "I6 . leaves stand in the eviction order"),
        (touch_without_reordering, "I6 node .* stands at another rank"),
        (unlink_a_parent, "I5 node .* names another parent or root"),
        (misplace_a_child, "I5 node .* is filed under another page or depth"),
        (cut_an_edge, "I5 node .* bytes of tokens"),
        (remember_a_stranger, "I5 node .* remembers a child it does not have"),
        (keep_an_empty_root, "I5 the root of 'idle' is empty"),
        (match_half_a_page, "I7 sequence .* matched 3 of 5 tokens"),
        (match_the_whole_prompt, "I7 sequence .* matched 6 of 5 tokens"),
        (publish_what_is_not_written, "I9 sequence .* published 2 tokens, 0 are written"),
        (compute_past_the_pages, "I9 sequence .* has written 99 tokens"),
        (keep_a_record_of_a_page_that_went, "I5 an eviction record stands on page"),
    ],
)
def test_damage_is_found_by_name(damage: Callable[[PrefixCache, Any], None], names: str) -> None:
    cache, seq = make()
    damage(cache, seq)
    with pytest.raises(InvariantViolation, match=names) as caught:
        check(cache)
    assert all(line.startswith("I") for line in caught.value.violations)


def test_all_damage_is_named_at_once() -> None:
    cache, seq = make()
    for damage in (forget_free_page, miscount_nodes, match_half_a_page, lock_once_more):
        damage(cache, seq)
    with pytest.raises(InvariantViolation) as caught:
        check(cache)
    assert {line.split()[0] for line in caught.value.violations} == {"I1", "I3", "I4", "I7"}


def test_an_idle_cache_is_sound() -> None:
    check(make_cache())


def test_check_changes_nothing() -> None:
    from tests.property.dump import dump

    cache, _ = make()
    before = dump(cache)
    check(cache)
    assert dump(cache) == before
