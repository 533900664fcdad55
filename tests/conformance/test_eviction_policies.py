"""One contract for every policy in the registry, and for one that a user brought."""

import random

import pytest

from radixcache import EVICTION_POLICIES, CacheConfig, PrefixCache, check
from radixcache.allocator import PageArray
from radixcache.errors import InvalidConfig
from radixcache.eviction.lfu import LFU
from radixcache.eviction.lru import LRU
from tests.oracles.prefix_dict import PrefixDict
from tests.property.scripts import POLICIES, MostRecentlyUsed
from tests.steps import begin, make_cache, matched, put, run_of

every_policy = pytest.mark.parametrize("eviction", POLICIES.values(), ids=POLICIES)

RECENCY = pytest.mark.parametrize("eviction", [name for name in EVICTION_POLICIES if name != "fifo"])


class Watch:
    """Collects victims, and asserts that each was a leaf that nobody uses when it went."""

    def __init__(self, cache: PrefixCache) -> None:
        self._size = cache.config.page_size
        self._index = PrefixDict(self._size)
        self._pages: dict[int, tuple[object, tuple[int, ...]]] = {}
        self.in_use: set[int] = set()
        self.victims: list[tuple[object, tuple[int, ...]]] = []
        cache.subscribe(self)

    def published(self, namespace, parent_page, new_pages: PageArray, tokens, depth) -> None:
        prefix = () if parent_page is None else self._pages[parent_page][1]
        for number, page in enumerate(new_pages.tolist()):
            prefix = (*prefix, *tokens[number * self._size : (number + 1) * self._size])
            self._pages[page] = (namespace, prefix)
            self._index.store([self._pages[page]])

    def evicted(self, namespace, pages: PageArray, surviving_parent_page, depth) -> None:
        for page in reversed(pages.tolist()):
            assert page not in self.in_use
            self.victims.append(self._pages.pop(page))
            self._index.remove(self.victims[-1:])

    def cleared(self, namespace, *, everything) -> None:
        self._index.clear_namespace(namespace)
        self._pages = {page: entry for page, entry in self._pages.items() if entry[0] != namespace}


def one_by_one(cache: PrefixCache, watch: Watch) -> list[tuple[int, ...]]:
    """Evict everything, a page at a time; tokens of the page that went, in order."""
    before = len(watch.victims)
    while cache.evict(1):
        check(cache)
    size = cache.config.page_size
    return [tokens[-size:] for _, tokens in watch.victims[before:]]


def random_traffic(cache: PrefixCache, seed: int, num_requests: int = 120) -> Watch:
    """Requests that share, branch, fork, carry hints, live side by side and leave namespaces behind."""
    rng, watch, live = random.Random(seed), Watch(cache), []
    for number in range(num_requests):
        tokens = [rng.randrange(2) for _ in range(rng.randrange(2, 9))]
        hints = {"priority": rng.randrange(3), "retain": rng.choice((None, 2, 40))}
        seq = cache.open(tokens, rng.choice((None, "a")), **hints)
        wanted = len(tokens) - seq.computed_len
        pages = -(-wanted // cache.config.page_size)
        if pages > cache.pages.available:
            seq.abort()
        else:
            seq.reserve(wanted)
            seq.advance(wanted)
            live.append(seq)
        if live and (len(live) == 3 or rng.random() < 0.5):
            live.pop(rng.randrange(len(live))).close()
        watch.in_use = {page for seq in live for page in seq.page_table.tolist()}
        if number % 40 == 39:
            cache.retire(rng.choice((None, "a")))
        expected = min(rng.randrange(3), cache.pages.evictable)
        assert cache.evict(expected) == expected
        check(cache)
    for seq in live:
        seq.close()
    watch.in_use = set()
    return watch


@every_policy
@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_victims_are_idle_leaves_and_all_can_go(eviction, page_size: int) -> None:
    cache = make_cache(12, page_size, eviction=eviction)
    watch = random_traffic(cache, seed=page_size)
    num_cached = cache.pages.evictable
    assert len(one_by_one(cache, watch)) == num_cached
    assert cache.pages.free == 12


@every_policy
@pytest.mark.parametrize("wanted", [0, 1, 2, 3, 5, 8, 9, 1000])
def test_evict_frees_exactly_what_is_asked_or_all_that_is_evictable(eviction, wanted: int) -> None:
    cache = make_cache(16, 2, eviction=eviction)
    for first in (0, 100, 200, 300):
        put(cache, run_of(first, 4))
    locked = begin(cache, run_of(400, 6))
    locked.publish()
    assert cache.evict(wanted) == min(wanted, 8)
    assert cache.pages.evictable == 8 - min(wanted, 8)
    check(cache)


@every_policy
def test_the_last_victim_is_trimmed_at_its_tail(eviction) -> None:
    cache = make_cache(8, 2, eviction=eviction)
    tokens = run_of(0, 16)
    put(cache, tokens)
    for num_left in range(7, -1, -1):
        assert cache.evict(1) == 1
        assert matched(cache, tokens) == 2 * num_left
        check(cache)


@every_policy
def test_b03_the_tail_of_a_chain_goes_and_always_the_same(eviction) -> None:
    cache = make_cache(3, 1, eviction=eviction)
    put(cache, [1, 2, 3])
    for _ in range(200):
        put(cache, [1, 2, 3])
        seq = cache.open([9])
        seq.reserve(1)
        assert cache.peek([1, 2, 3, 4]).matched_len == 2
        seq.abort()


@every_policy
def test_equal_operations_choose_equal_victims(eviction) -> None:
    caches = [make_cache(12, 2, eviction=eviction) for _ in range(2)]
    first, second = [random_traffic(cache, seed=5).victims for cache in caches]
    assert first == second
    assert len(first) > 50


@every_policy
def test_no_hint_can_make_a_request_fail(eviction) -> None:
    cache = make_cache(8, 1, eviction=eviction)
    for first in (0, 10, 20, 30):
        put(cache, run_of(first, 2), priority=2**31, retain=1e9)
    assert cache.pages == (0, 0, 8, 0, 8)
    with cache.open(run_of(90, 8)) as seq:
        seq.reserve(8)
        seq.advance(8)
    assert matched(cache, run_of(90, 8)) == 8


@every_policy
def test_a_prefix_survives_splits_merges_and_the_end_of_its_neighbours(eviction) -> None:
    cache = make_cache(64, 2, eviction=eviction)
    path = run_of(0, 16)
    with begin(cache, path) as held:
        held.publish()
        for cut in range(2, 16, 2):
            put(cache, [*path[:cut], *run_of(1000 + cut, 4)])
            put(cache, [*path[:cut], 7, 7], "other")
            check(cache)
        cache.retire("other")
        assert cache.evict(64) == 14
        assert matched(cache, path) == 16
        check(cache)
    assert cache.pages == (56, 0, 8, 0, 64)


@pytest.mark.parametrize("eviction", ["lru", "fifo"])
def test_one_touch_of_a_full_path_collapses_it(eviction) -> None:
    cache = make_cache(64, 2, eviction=eviction)
    path = run_of(0, 16)
    put(cache, path)
    for cut in range(14, 0, -2):
        put(cache, [*path[:cut], 9], write=False)
    assert cache.stats.num_nodes == (8 if eviction == "lru" else 1)
    put(cache, [*path, 9], write=False)
    assert cache.stats.num_nodes == 1
    check(cache)


@every_policy
def test_many_branches_on_one_path_leave_no_more_nodes_than_pages(eviction) -> None:
    cache = make_cache(200, 1, eviction=eviction)
    path, rng = run_of(0, 128), random.Random(17)
    with begin(cache, path) as held:
        held.publish()
        for number in range(1_000):
            cut = rng.randrange(1, 128)
            put(cache, [*path[:cut], 1000 + number])
            cache.evict(cache.pages.evictable)
            assert cache.stats.num_nodes <= (128 if eviction in ("lfu", "gdsf", MostRecentlyUsed) else 25)
    put(cache, [*path, 9], write=False)
    assert cache.stats.num_nodes == 1 or eviction not in ("lru", "slru", "priority")
    check(cache)


class Miserly(LRU):
    """Lets one page go of each leaf, then none."""

    def quota(self, node):
        return 1 if node.num_pages > 3 else 0


def test_a_quota_of_no_pages_is_an_error_that_loses_none() -> None:
    cache = make_cache(8, 1, eviction=Miserly)
    watch = Watch(cache)
    put(cache, run_of(0, 5))
    with pytest.raises(InvalidConfig, match=r"Miserly\.quota is at least 1, got 0"):
        cache.evict(4)
    assert cache.pages == (5, 0, 3, 0, 8)
    assert len(watch.victims) == cache.stats.evicted_pages == 2
    check(cache)
    with pytest.raises(InvalidConfig):
        put(cache, run_of(100, 8))
    check(cache)
    assert matched(cache, run_of(0, 5)) == 3


# What each promises


@RECENCY
def test_b04_hits_keep_a_hot_prefix(eviction) -> None:
    cache = make_cache(4, 2, eviction=eviction)
    put(cache, [1, 1])
    for cold in range(10, 30):
        put(cache, [1, 1, 5])
        put(cache, [cold, cold])
        assert matched(cache, [1, 1]) == 2


@RECENCY
def test_b05_after_a_partial_hit_the_tail_behind_it_goes_first(eviction) -> None:
    cache = make_cache(20, 1, eviction=eviction)
    watch = Watch(cache)
    put(cache, run_of(1, 8))
    put(cache, run_of(50, 2))
    put(cache, run_of(1, 4), write=False)
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [8, 7, 6, 5, 4, 51, 50, 3, 2, 1]  # the last prompt token never matches: 4 was no hit


@pytest.mark.parametrize("eviction", list(EVICTION_POLICIES))
def test_a_parent_inherits_what_its_last_child_knew(eviction) -> None:
    cache = make_cache(20, 1, eviction=eviction)
    watch = Watch(cache)
    put(cache, [20, 21])
    put(cache, [1, 2, 3, 4])
    older, parent = cache.open([20, 21, 9]), cache.open([1, 2, 9])  # in use, and never counted as used
    assert cache.evict(20) == 2
    older.abort()
    parent.abort()
    assert [token for (token,) in one_by_one(cache, watch)] == [21, 20, 2, 1]


def test_fifo_ignores_hits() -> None:
    cache = make_cache(20, 1, eviction="fifo")
    watch = Watch(cache)
    for first in (10, 20, 30):
        put(cache, [first])
    for _ in range(50):
        put(cache, [10, 99], write=False)
    assert [token for (token,) in one_by_one(cache, watch)] == [10, 20, 30]


@pytest.mark.parametrize("eviction", list(EVICTION_POLICIES))
def test_b07_what_was_popular_once_leaves_after_a_bounded_number_of_evictions(eviction) -> None:
    num_pages, num_hits = 32, 1000
    cache = make_cache(num_pages, 2, eviction=eviction)
    put(cache, [1, 1])
    for _ in range(num_hits):
        put(cache, [1, 1, 9], write=False)
    bound = (num_hits.bit_length() + 1) * num_pages
    cold = 100
    while matched(cache, [1, 1]):
        for _ in range(10):
            put(cache, [2, 2, 9])
        for _ in range(4):
            cold += 1
            put(cache, [cold, cold])
        assert cache.stats.evicted_pages <= bound
    assert matched(cache, [2, 2]) == 2 or eviction == "fifo"


def test_lfu_keeps_what_is_used_often_over_what_was_used_last() -> None:
    cache = make_cache(20, 1, eviction="lfu")
    watch = Watch(cache)
    for first, num_uses in ((10, 3), (20, 5), (30, 1)):
        put(cache, [first])
        for _ in range(num_uses):
            put(cache, [first, 99], write=False)
    assert [token for (token,) in one_by_one(cache, watch)] == [30, 10, 20]


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_lfu_counts_a_sequence_that_publishes_in_chunks_once(chunk: int) -> None:
    cache = make_cache(40, 1, eviction="lfu")
    watch = Watch(cache)
    with cache.open(run_of(0, 8)) as seq:
        for _ in range(0, 8, chunk):
            seq.reserve(chunk)
            seq.advance(chunk)
            seq.publish()
    put(cache, run_of(20, 4))
    put(cache, run_of(20, 4))
    assert one_by_one(cache, watch)[:8] == [(token,) for token in range(7, -1, -1)]


def test_lfu_takes_no_use_from_a_prefix_that_somebody_else_published() -> None:
    policy_saw: list[bool] = []

    class Spy(LFU):
        def insert(self, node, use, *, continued):
            policy_saw.append(continued)
            super().insert(node, use, continued=continued)

    cache = make_cache(40, 1, eviction=Spy)
    seq = cache.open(run_of(0, 8), read=False)
    seq.reserve(8)
    for reach in (2, 4, 6):
        if reach == 4:
            put(cache, run_of(0, 4))  # publishes [2, 4) before `seq` does
        seq.advance(2)
        seq.publish()
    assert policy_saw == [False, False, False]
    seq.advance(2)
    seq.publish()
    assert policy_saw[-1] is True


def hot_share(eviction: str, num_pages: int = 64) -> float:
    """Share of a hot set of a quarter of the pool that is found after scans of three times the pool."""
    cache = make_cache(num_pages, 2, eviction=eviction)
    hot = [[number, number, 9] for number in range(1, num_pages // 4 + 1)]
    for _ in range(2):
        for prompt in hot:
            put(cache, prompt)
    found = asked = 0
    cold = 1000
    for _ in range(5):
        for _ in range(3 * num_pages):
            cold += 1
            put(cache, [cold, cold])
        for prompt in hot:
            found += cache.peek(prompt).matched_len == 2
            asked += 1
            put(cache, prompt)
    check(cache)
    return found / asked


def test_b18_slru_keeps_its_hot_set_through_scans_that_empty_lru() -> None:
    assert hot_share("slru") >= 0.9
    assert hot_share("lru") == 0


def test_slru_lets_a_hot_set_that_went_cold_be_replaced() -> None:
    cache = make_cache(32, 2, eviction="slru")
    for generation in range(6):
        hot = [[generation, number, 9] for number in range(24)]
        for _ in range(15):
            for prompt in hot:
                put(cache, prompt)
        assert sum(cache.peek(prompt).matched_len > 0 for prompt in hot) >= 23


def test_slru_members_past_the_share_fall_behind_what_is_on_probation() -> None:
    cache = make_cache(12, 1, eviction="slru")  # 9 of 12 pages protected
    watch = Watch(cache)
    for number in range(10):
        put(cache, [number])
    put(cache, [0, 99], write=False)
    put(cache, [50])
    for number in range(1, 10):
        put(cache, [number, 99], write=False)
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [50, *range(10)]


def test_slru_merges_a_path_without_making_it_look_older() -> None:
    turnover = 20
    cache = make_cache(turnover, 1, eviction="slru")
    cold = iter(range(100, 10_000))

    def scan(num_turnovers: int) -> None:
        for _ in range(num_turnovers * turnover):
            put(cache, [next(cold)])

    put(cache, [1, 2, 3])
    put(cache, [1, 2, 3, 99], write=False)
    scan(7)
    put(cache, [1, 99], write=False)
    put(cache, [1, 2, 3, 4], read=False)
    while matched(cache, [1, 2, 3, 4]) == 4:
        cache.evict(1)
    cache.open([1, 2, 3, 99]).abort()  # its end merges
    scan(5)
    assert matched(cache, [1]) == 1
    scan(5)
    assert matched(cache, [1]) == 0


# Priorities and retention


def prioritised(num_pages: int = 20) -> tuple[PrefixCache, Watch]:
    cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=1, eviction="priority"))
    return cache, Watch(cache)


def test_f15_high_priority_users_keep_their_prefixes_under_pressure() -> None:
    cache, _ = prioritised(num_pages=24)
    users = [[number, number + 50] for number in range(1, 5)]
    for tokens in users:
        put(cache, tokens, priority=1)
    for cold in range(100, 400):
        put(cache, [cold])
        assert all(matched(cache, tokens) == 2 for tokens in users)


def test_f15_ancestors_take_the_highest_priority_of_their_users() -> None:
    cache, watch = prioritised()
    put(cache, [1, 2, 3])
    put(cache, [1, 2, 4], priority=5)
    put(cache, [7, 8], priority=3)
    put(cache, [9])
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [3, 9, 8, 7, 4, 2, 1]


def test_f15_a_hit_passes_its_priority_on() -> None:
    cache, watch = prioritised()
    put(cache, [1])
    put(cache, [2])
    put(cache, [1, 99], write=False, priority=1)
    put(cache, [3])
    assert [token for (token,) in one_by_one(cache, watch)] == [2, 3, 1]


def test_f15_a_hint_ends_with_its_retention_time() -> None:
    cache, watch = prioritised()
    cache.advance_time(10.0)
    put(cache, [1], priority=9, retain=5.0)
    put(cache, [2], retain=3.0)
    put(cache, [3], priority=1)
    put(cache, [4])
    cache.advance_time(13.0)  # that of 2 is over, that of 1 is not
    assert cache.evict(2) == 2
    assert [tokens for _, tokens in watch.victims] == [(2,), (4,)]
    cache.advance_time(15.0)
    assert [token for (token,) in one_by_one(cache, watch)] == [1, 3]


def test_f15_without_a_clock_a_hint_ends_after_so_many_lookups() -> None:
    cache, watch = prioritised()
    put(cache, [1], priority=1, retain=4)
    put(cache, [2])
    put(cache, [3])
    assert cache.evict(1) == 1
    assert watch.victims[-1][1] == (2,)
    for _ in range(4):
        put(cache, [3, 9], write=False)
    assert cache.evict(1) == 1
    assert watch.victims[-1][1] == (1,)


def test_f15_a_parent_whose_own_hint_is_over_inherits_one_that_is_not() -> None:
    cache, watch = prioritised()
    cache.advance_time(0.0)
    put(cache, [1], priority=5, retain=10.0)
    put(cache, [1, 2], priority=1, retain=100.0)
    put(cache, [3], priority=3, retain=100.0)
    cache.advance_time(50.0)
    put(cache, [4])
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [4, 2, 1, 3]


def test_f15_hinted_pages_fill_no_more_than_their_share() -> None:
    cache, watch = prioritised(num_pages=20)
    for number in range(15):
        put(cache, [number], priority=1)
    put(cache, [50])
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [0, 1, 2, 3, 4, 50, *range(5, 15)]


def test_f15_a_higher_priority_takes_the_share_of_a_lower_one() -> None:
    cache, watch = prioritised(num_pages=20)
    for number in range(10):
        put(cache, [number], priority=1)
    for number in range(20, 25):
        put(cache, [number], priority=2)
    put(cache, [50])
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [0, 1, 2, 3, 4, 50, 5, 6, 7, 8, 9, 20, 21, 22, 23, 24]


def test_f15_a_hinted_path_that_is_trimmed_makes_room_in_the_share() -> None:
    cache, watch = prioritised(num_pages=20)
    put(cache, run_of(100, 8), priority=1)
    assert cache.evict(6) == 6
    for number in range(8):
        put(cache, [number], priority=1)
    put(cache, [50])
    order = [token for (token,) in one_by_one(cache, watch)]
    assert order == [50, 101, 100, *range(8)]
