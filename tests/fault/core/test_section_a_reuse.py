"""Pages and slots, continued: admission, growth with history, reuse, and two that compute the same."""

import itertools
import random
from collections.abc import Callable

import pytest

from radixcache import OutOfPages, PrefixCache, Sequence, check
from tests.property.dump import dump
from tests.steps import Engine, begin, fill, make_cache, matched, pages_of, put, run_of, tree_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))


def is_idle(cache: PrefixCache) -> bool:
    counts = cache.pages
    return counts.private == counts.locked == 0 and counts.free + counts.evictable == counts.total


# A14


@pytest.mark.parametrize("partial_reuse", [False, True])
def test_a14_a_failed_admission_pins_nothing(partial_reuse: bool) -> None:
    cache = make_cache(num_pages=5, page_size=4, partial_reuse=partial_reuse)
    put(cache, A + B)
    prompt = [*A, *B, *run_of(900, 16)]
    before = dump(cache, without_failed_reserves=True)
    for attempt in range(100):
        seq = cache.open(prompt)
        with pytest.raises(OutOfPages):
            seq.reserve(16)
        seq.abort()
        assert cache.pages == (3, 0, 2, 0, 5)
        assert cache.stats.lookups == 1
        if not attempt:
            first = dump(cache, without_failed_reserves=True)
    after = dump(cache, without_failed_reserves=True)
    assert after.count("Node(") == before.count("Node(") == first.count("Node(")


def test_a14_the_same_admission_works_where_one_more_page_is_there() -> None:
    cache = make_cache(num_pages=6, page_size=4)
    put(cache, A + B)
    seq = cache.open([*A, *B, *run_of(900, 16)])
    seq.reserve(16)
    assert cache.pages == (0, 4, 0, 2, 6)
    seq.abort()


# A15


@pytest.mark.parametrize("num_held", [0, 2, 1], ids=["unlocked", "locked by another", "half and half"])
@pytest.mark.parametrize("num_pages", range(4, 10))
def test_a15_what_is_matched_is_no_room_and_the_count_beforehand_is_exact(
    num_held: int, num_pages: int
) -> None:
    cache = make_cache(num_pages=num_pages, page_size=4)
    put(cache, A + B)
    put(cache, C)
    holder = cache.open([*A, *B, 0][: 4 * num_held + 1])
    for needed in range(1, num_pages + 2):
        seq = cache.open([*A, *B, *run_of(900, 4 * needed)])
        available = cache.pages.available
        assert available == num_pages - 2
        if needed <= available:
            seq.reserve(4 * needed)
        else:
            with pytest.raises(OutOfPages) as caught:
                seq.reserve(4 * needed)
            assert caught.value.free + caught.value.evictable == available
        seq.abort()
    holder.abort()


# A17


def at_random(number: int) -> int:
    return number * 7919 % 127 + 1


def from_the_end(number: int) -> int:
    return 127 - number % 127


@pytest.mark.parametrize(
    ("cut", "bound", "times"), [(at_random, 32, 10_000), (from_the_end, 128, 1_000)], ids=["random", "worst"]
)
def test_a17_ten_thousand_split_points_leave_recency_steps_at_most_and_one_touch_collapses_them(
    rarely_checked: None, cut: Callable[[int], int], bound: int, times: int
) -> None:
    cache = make_cache(num_pages=160, page_size=1)
    path = run_of(0, 128)
    keeper = begin(cache, path)
    keeper.publish()
    for number in range(times):
        put(cache, [*path[: cut(number)], 1_000 + number % 7])
        while cache.pages.evictable:
            cache.evict(1)
        assert cache.stats.num_nodes <= bound
    check(cache)
    put(cache, [*path, 0])
    cache.evict(1)
    assert tree_of(cache) == {tuple(path): 1}
    keeper.close()
    check(cache)


@pytest.mark.parametrize("seed", range(5))
def test_a17_nodes_are_bounded_by_branches_leaves_holders_and_recency_steps(seed: int) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=40, page_size=1)
    path = run_of(0, 20)
    held: list[Sequence] = []
    for _ in range(300):
        held.append(cache.open([*path[: rng.randrange(1, 21)], 99]))
        if len(held) > 3:
            held.pop(rng.randrange(4)).abort()
        if rng.random() < 0.3:
            put(cache, [*path[: rng.randrange(1, 20)], 1_000 + rng.randrange(3)])
        cache.evict(rng.randrange(3))
    for seq in held:
        seq.abort()
    put(cache, [*path, 0])
    tree = tree_of(cache)
    num_leaves = sum(
        not any(len(other) > len(node) and other[: len(node)] == node for other in tree) for node in tree
    )
    assert len(tree) <= 3 * num_leaves
    assert cache.stats.num_nodes == len(tree)


def test_a17_records_of_evictions_do_not_grow_with_history(rarely_checked: None) -> None:
    cache = make_cache(num_pages=8, page_size=1, max_ghosts=16)
    for number in range(5_000):
        put(cache, [1, 2, number, number])
        assert cache.stats.num_ghosts <= 16
    check(cache)
    state = cache._state
    assert len(state.ghosts._made) <= 16
    assert len(state.tree._first_pages) == 1
    assert not state.in_flight._counts
    assert not state.live


# A18


def test_a18_a_page_that_was_reused_is_found_under_its_new_content_only() -> None:
    cache = make_cache(num_pages=1, page_size=4)
    page = put(cache, A)
    assert put(cache, B) == page
    assert (matched(cache, A), matched(cache, B)) == (0, 4)


def test_a18_content_is_never_mixed_up_while_everything_is_reused() -> None:
    rng = random.Random(18)
    engine = Engine(make_cache(num_pages=6, page_size=2, partial_reuse=True))
    for _ in range(300):
        engine.put([rng.randrange(2) for _ in range(rng.randrange(1, 9))])
        engine.verify()
    assert engine.cache.stats.num_nodes <= 6


# A19


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("ending", ["close", "abort"])
def test_a19_two_that_compute_the_same_keep_one_copy_and_neither_removes_the_others(
    order: tuple[int, ...], ending: str
) -> None:
    cache = make_cache(num_pages=9, page_size=4)
    seqs = [begin(cache, A + B) for _ in range(3)]
    assert cache.pages.private == 6
    for seq in seqs:
        seq.publish()
    assert (cache.pages, cache.stats.duplicate_pages) == ((7, 0, 0, 2, 9), 4)
    for number in order:
        getattr(seqs[number], ending)()
        assert matched(cache, A + B) == 8
    assert cache.evict(1) == 1
    assert matched(cache, A + B) == 4
    assert put(cache, A + B)[:1] == pages_of(cache, A)


# A21


def test_a21_an_unfinished_duplicate_reads_the_canonical_pages_before_its_own_are_reused() -> None:
    engine = Engine(make_cache(num_pages=7, page_size=4))
    one, two = engine.begin(A + B), engine.begin(A + B)
    own = two.seq.page_table.tolist()
    one.seq.publish()
    two.seq.publish()
    assert two.seq.page_table.tolist() == one.seq.page_table.tolist()
    intruder = engine.begin(run_of(900, 8))
    assert set(own) == set(intruder.seq.page_table.tolist())
    engine.verify()
    engine.generate(two, *C)
    engine.verify()
    engine.close(one)
    engine.abort(intruder)
    engine.generate(two, 1)
    engine.verify()


@pytest.mark.parametrize("shared", range(13))
@pytest.mark.parametrize("chunk", [1, 3, 4, 7])
def test_a21_for_any_overlap_and_any_chunks(shared: int, chunk: int) -> None:
    engine = Engine(make_cache(num_pages=12, page_size=4))
    one = engine.open(run_of(0, 12))
    two = engine.open([*run_of(0, shared), *run_of(500, 13 - shared)])
    while one.seq.computed_len < 12 or two.seq.computed_len < 13:
        for running in (one, two):
            left = running.seq.num_tokens - running.seq.computed_len
            if left:
                engine.compute(running, min(chunk, left))
                running.seq.publish()
                engine.verify()
    engine.put(run_of(900, 12))
    engine.verify()


def test_a21_the_pages_a_fork_waits_for_are_not_freed_as_duplicates() -> None:
    engine = Engine(make_cache(num_pages=10, page_size=4))
    one = engine.begin(A[:3])
    child = engine.fork(one)
    engine.generate(one, A[3])
    engine.put(A)
    one.seq.publish()
    assert one.seq.page_table.tolist() == pages_of(engine.cache, A)
    fill(engine.cache, start=5000)
    engine.copy(child.seq.take_copies())
    slots = child.seq.slots(0, 3).tolist()
    assert [engine.memory[slot][-1] for slot in slots] == A[:3]
