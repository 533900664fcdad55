"""Locks and eviction: what is used stays, what goes is the least valuable, and little more than needed."""

import contextlib
import random

import pytest

from radixcache import EVICTION_POLICIES, OutOfPages, PrefixCache, Sequence, check
from radixcache.eviction import LRU
from tests.property.dump import dump
from tests.steps import Engine, begin, compute, fill, make_cache, matched, pages_of, put, run_of, tree_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))
every_policy = pytest.mark.parametrize("eviction", EVICTION_POLICIES)


# B01


@every_policy
def test_b01_a_matched_path_survives_any_eviction_and_goes_child_first_afterwards(eviction: str) -> None:
    cache = make_cache(num_pages=8, page_size=4, eviction=eviction)
    put(cache, A + B)
    put(cache, A + C)
    put(cache, D)
    seq = cache.open([*A, *B, 0])
    assert cache.evict(8) == 2
    assert set(tree_of(cache).values()) == {1}
    assert matched(cache, A + B) == 8
    seq.abort()
    assert cache.evict(1) == 1
    assert matched(cache, A + B) == 4
    assert cache.evict(8) == 1


def test_b01_each_node_of_a_path_is_locked_once_by_one_holder() -> None:
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A + B)
    put(cache, A + C)
    seq = cache.open([*A, *B, 0])
    assert tree_of(cache) == {(*A,): 1, (*A, *B): 1, (*A, *C): 0}
    seq.abort()
    assert set(tree_of(cache).values()) == {0}


# B02


@every_policy
def test_b02_nobody_takes_a_page_between_lookup_and_lock(eviction: str) -> None:
    engine = Engine(make_cache(num_pages=4, page_size=4, eviction=eviction))
    engine.put(A + B)
    first = engine.open([*A, *B, 1])
    greedy = engine.open(run_of(900, 16))
    with pytest.raises(OutOfPages):
        engine.compute(greedy)
    assert first.seq.matched_len == 8
    engine.compute(first)
    engine.verify()
    engine.abort(greedy)
    engine.close(first)


def test_b02_a_match_that_went_since_a_peek_is_found_out_by_open() -> None:
    engine = Engine(make_cache(num_pages=4, page_size=4))
    engine.put(A + B)
    assert engine.cache.peek([*A, *B, 1]).matched_len == 8
    engine.put(run_of(900, 12))
    again = engine.begin([*A, *B, 1])
    assert again.seq.matched_len == 4
    engine.verify()


@pytest.mark.parametrize("seed", range(10))
def test_b02_whoever_is_admitted_in_one_pass_reads_its_own_tokens(seed: int) -> None:
    rng = random.Random(seed)
    engine = Engine(make_cache(num_pages=8, page_size=2, partial_reuse=bool(seed % 2)))
    for _ in range(60):
        opened = [engine.open([rng.randrange(2) for _ in range(rng.randrange(1, 11))]) for _ in range(3)]
        rng.shuffle(opened)
        for running in opened:
            try:
                engine.compute(running)
            except OutOfPages:
                engine.abort(running)
            engine.verify()
        for running in [each for each in opened if each in engine.live]:
            engine.close(running)
            engine.verify()


# B03


@every_policy
def test_b03_the_tail_of_a_chain_goes_first_two_hundred_times(eviction: str) -> None:
    cache = make_cache(num_pages=3, page_size=4, eviction=eviction)
    tokens = A + B + C
    for number in range(200):
        put(cache, tokens)
        assert matched(cache, tokens) == 12
        seq = cache.open(run_of(1000 + 10 * number, 4))
        seq.reserve(4)
        assert matched(cache, tokens) == 8
        seq.abort()


@every_policy
def test_b03_no_page_is_ever_cached_without_the_pages_before_it(eviction: str) -> None:
    rng = random.Random(3)
    cache = make_cache(num_pages=9, page_size=1, eviction=eviction)
    for _ in range(300):
        put(cache, [rng.randrange(3) for _ in range(rng.randrange(1, 7))])
        cache.evict(rng.randrange(3))
        assert sum(map(len, cache_pages(cache))) == cache.pages.evictable


def cache_pages(cache: PrefixCache) -> list[tuple[int, ...]]:
    return [run.pages for run in cache.snapshot().stored]


# B04


@pytest.mark.parametrize("eviction", ["lru", "slru", "lfu", "priority"])
def test_b04_a_prefix_that_is_hit_again_and_again_survives_cold_ones(eviction: str) -> None:
    cache = make_cache(num_pages=3, page_size=4, eviction=eviction)
    put(cache, A)
    for number in range(50):
        for cold in range(3):
            seq = begin(cache, [*A, 1])
            assert seq.matched_len == 4
            seq.abort()
            put(cache, run_of(1000 + 100 * number + 10 * cold, 4))


# B05


@pytest.mark.parametrize("is_held", [False, True])
def test_b05_after_a_partial_hit_the_unmatched_half_goes_first_and_the_matched_half_last(
    is_held: bool,
) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A + B)
    put(cache, C)
    seq = begin(cache, [*A, 1])
    if not is_held:
        seq.abort()
    order = []
    while cache.evict(1):
        order.append([matched(cache, A + B), matched(cache, C)])
    assert order == ([[4, 4], [4, 0]] if is_held else [[4, 4], [4, 0], [0, 0]])


@pytest.mark.parametrize("cut", range(1, 8))
def test_b05_wherever_the_hit_ends(cut: int) -> None:
    cache = make_cache(num_pages=12, page_size=1)
    put(cache, run_of(0, 8))
    put(cache, [500])
    begin(cache, [*run_of(0, cut), 900], write=False).close()
    for left in range(7, cut - 1, -1):
        cache.evict(1)
        assert (matched(cache, run_of(0, 8)), matched(cache, [500])) == (left, 1)
    cache.evict(1)
    assert (matched(cache, run_of(0, 8)), matched(cache, [500])) == (cut, 0)


# B06


@every_policy
def test_b06_asking_a_hundred_times_changes_nothing(eviction: str) -> None:
    cache = make_cache(num_pages=10, page_size=2, eviction=eviction, partial_reuse=True, max_events=10)
    put(cache, A + B)
    put(cache, A + C)
    begin(cache, [*A, 9]).publish()
    before = dump(cache)
    for _ in range(100):
        for prompt in (A, A + B, [*A, *B[:1], 7], [*A[:2], 7], D, [*A, *C, 1]):
            cache.peek(prompt)
            cache.peek(prompt, "other")
    assert dump(cache) == before


@every_policy
def test_b06_opening_and_giving_up_changes_no_order_and_no_count(eviction: str) -> None:
    def victims(num_probes: int) -> list[list[int]]:
        cache = make_cache(num_pages=10, page_size=4, eviction=eviction)
        for prompt in (A + B, A + C, D + A, D + B):
            put(cache, prompt)
        for _ in range(num_probes):
            for prompt in ([*A, 1], [*D, *A, 1], [*A, *B, 1]):
                cache.open(prompt).abort()
        assert cache.stats.lookups == 4
        order = []
        while cache.evict(1):
            order.append([matched(cache, prompt) for prompt in (A + B, A + C, D + A, D + B)])
        return order

    assert victims(0) == victims(20)


# B07


@pytest.mark.parametrize("eviction", ["lru", "fifo", "lfu", "slru", "priority"])
def test_b07_what_was_popular_once_leaves_within_a_bounded_number_of_evictions(
    rarely_checked: None, eviction: str
) -> None:
    num_pages = 16
    cache = make_cache(num_pages=num_pages, page_size=4, eviction=eviction)
    put(cache, A)
    for _ in range(1000):
        begin(cache, [*A, 1]).close()
    evicted, number = 0, 0
    while matched(cache, A):
        begin(cache, [*B, *run_of(1000 + 10 * number, 4)]).close()
        number += 1
        evicted = cache.stats.evicted_pages
        assert evicted <= 20 * num_pages, "the early favourite is still there"
    check(cache)


# B08


@every_policy
def test_b08_partly_filled_pages_never_cost_a_cached_prefix(eviction: str) -> None:
    cache = make_cache(num_pages=20, page_size=4, eviction=eviction)
    prefix = run_of(0, 40)
    put(cache, prefix)
    for number in range(50):
        put(cache, [1000 + number, 1, 2])
    assert matched(cache, prefix) == 40
    assert cache.stats.evictions == 0


def test_b08_pages_given_back_are_used_before_anything_is_evicted() -> None:
    cache = make_cache(num_pages=20, page_size=4)
    put(cache, run_of(0, 40))
    seqs = [begin(cache, [1000 + number, 1, 2]) for number in range(10)]
    for seq in seqs:
        seq.close()
    begin(cache, run_of(500, 40)).close()
    assert cache.stats.evictions == 0


# B10


@every_policy
@pytest.mark.parametrize("num_pages", range(14))
def test_b10_eviction_frees_exactly_what_was_asked_for(eviction: str, num_pages: int) -> None:
    cache = make_cache(num_pages=16, page_size=2, eviction=eviction)
    for prompt in (run_of(0, 10), [*run_of(0, 4), 50, 51, 52, 53], run_of(100, 6), run_of(200, 4)):
        put(cache, prompt)
    assert cache.pages.evictable == 12
    assert cache.evict(num_pages) == min(num_pages, 12)
    assert cache.pages.evictable == max(0, 12 - num_pages)


@every_policy
def test_b10_a_demand_that_cannot_be_met_evicts_nothing(eviction: str) -> None:
    cache = make_cache(num_pages=6, page_size=4, eviction=eviction)
    put(cache, A + B)
    held = begin(cache, C)
    held.publish()
    for num_tokens in (24, 28, 4_000_000):
        seq = cache.open(run_of(900, 5))
        with pytest.raises(OutOfPages):
            seq.reserve(num_tokens)
        seq.abort()
        assert (cache.stats.evictions, matched(cache, A + B)) == (0, 8)
    held.abort()


def test_b10_a_demand_of_one_page_more_than_the_pool_fails_without_looking() -> None:
    cache = make_cache(num_pages=6, page_size=4)
    fill(cache)
    before = dump(cache, without_failed_reserves=True)
    seq = cache.open([7])
    with pytest.raises(OutOfPages) as caught:
        seq.reserve(28)
    assert (caught.value.needed, caught.value.free, caught.value.evictable) == (7, 0, 6)
    seq.abort()
    assert dump(cache, without_failed_reserves=True).count("Node(") == before.count("Node(")


# B15


class Counting(LRU):
    ranked = 0

    def rank(self, node: object) -> object:
        Counting.ranked += 1
        return super().rank(node)


@pytest.mark.parametrize("num_leaves", [100, 1_000, 4_000])
def test_b15_one_eviction_and_one_insert_look_at_few_leaves_however_many_there_are(
    rarely_checked: None, num_leaves: int
) -> None:
    cache = make_cache(num_pages=num_leaves, page_size=1, eviction=Counting)
    fill(cache)
    for _ in range(3):
        Counting.ranked = 0
        for number in range(20):
            put(cache, [number])
        assert Counting.ranked <= 20 * 6
    check(cache)


@pytest.mark.parametrize("seed", range(5))
def test_b15_the_order_is_that_of_a_plain_list_of_uses(rarely_checked: None, seed: int) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=30, page_size=1)
    uses: list[int] = []
    for _ in range(400):
        number = rng.randrange(60)
        is_hit = number in uses
        if is_hit:
            uses.remove(number)
        if len(uses) + is_hit == 30:
            uses.pop(0)
        uses.append(number)
        begin(cache, [number, 999] if is_hit else [number], write=not is_hit).close()
        for page in rng.sample(range(60), 5):
            assert matched(cache, [page]) == (page in uses)
    check(cache)


# B18: hit rates under scans are tested with the policies (tests/conformance); here: a scan pins nothing.


@every_policy
def test_b18_after_a_scan_of_three_times_the_pool_everything_can_still_be_evicted(eviction: str) -> None:
    cache = make_cache(num_pages=16, page_size=4, eviction=eviction)
    hot = run_of(0, 16)
    for number in range(48):
        put(cache, run_of(1000 + 10 * number, 4))
        if number % 8 == 0:
            begin(cache, [*hot, 1]).close()
    assert cache.evict(99) == 16
    assert cache.pages.free == 16


# Locks in general


@pytest.mark.parametrize("seed", range(10))
def test_counts_return_to_zero_whatever_the_order_of_holders(seed: int) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=30, page_size=1)
    path = run_of(0, 12)
    live: list[Sequence] = []
    for _ in range(60):
        tokens = [*path[: rng.randrange(13)], 100 + rng.randrange(3)]
        live.append(cache.open([*tokens, 0]))
        if rng.random() < 0.5:
            with contextlib.suppress(OutOfPages):
                compute(live[-1])
        if len(live) > 3:
            seq = live.pop(rng.randrange(4))
            rng.choice([seq.close, seq.abort])()
    for seq in live:
        seq.close()
    assert set(tree_of(cache).values()) <= {0}
    assert cache.evict(30) + cache.pages.free >= 30
    assert pages_of(cache, path) == []
