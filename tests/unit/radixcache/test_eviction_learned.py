"""What the learning policies promise, each on traffic made for it."""

import random
from collections.abc import Callable

import pytest

from radixcache import CacheConfig, PrefixCache, check
from radixcache.eviction.hazard import Hazard
from radixcache.eviction.tlru import TLRU
from radixcache.eviction.visits import Kind, VisitPolicy
from tests.steps import begin, make_cache, matched, put, run_of

LEARNING = pytest.mark.parametrize("eviction", ["wa", "hazard"])


class Traffic:
    """Conversations of which some return; prompts of one-token pages, an answer of `tail` tokens each."""

    def __init__(self, cache: PrefixCache, tail: int = 0) -> None:
        self._cache = cache
        self._tail = tail
        self._fresh = 0
        self.hits = self.asked = 0

    def new(self, num_tokens: int) -> list[int]:
        self._fresh += num_tokens
        return run_of(self._fresh, num_tokens)

    def send(self, prompt: list[int]) -> None:
        answer = self.new(self._tail)
        seq = self._cache.open([*prompt, *answer, 2**31 - 1])
        self.hits += min(seq.matched_len, len(prompt))
        self.asked += len(prompt)
        missing = len(prompt) + self._tail - seq.matched_len
        seq.reserve(max(1, missing))
        seq.advance(missing)
        seq.close()

    @property
    def hit_rate(self) -> float:
        return self.hits / self.asked


def scans_and_returns(cache: PrefixCache, num_rounds: int = 400, tail: int = 0) -> float:
    """Long prompts that never return, between short talks that do, later than LRU keeps them."""
    traffic = Traffic(cache, tail)
    talks = [traffic.new(3) for _ in range(8)]
    for number in range(num_rounds):
        talk = [*talks[number % 8], *traffic.new(1)]
        talks[number % 8] = talk if len(talk) < 12 else traffic.new(3)
        traffic.send(talks[number % 8])
        traffic.send(traffic.new(16))
    check(cache)
    return traffic.hit_rate


def ratio_to_lru(run: Callable[[PrefixCache], float], eviction: str, num_pages: int) -> tuple[float, float]:
    lru, learned = (
        run(PrefixCache(CacheConfig(num_pages=num_pages, page_size=1, eviction=name)))
        for name in ("lru", eviction)
    )
    return lru, learned


def test_scans_cannot_push_out_what_returns() -> None:
    lru, learned = ratio_to_lru(scans_and_returns, "hazard", 100)
    assert learned > lru + 0.1


@LEARNING
def test_until_something_was_learned_it_is_lru(eviction) -> None:
    def few(cache: PrefixCache) -> float:
        return scans_and_returns(cache, num_rounds=30)

    lru, learned = ratio_to_lru(few, eviction, 100)
    assert learned == lru


def changing(cache: PrefixCache) -> float:
    """Who returns changes: first the short conversations, then the long ones, and the short never again."""
    traffic, rng = Traffic(cache), random.Random(3)
    for phase in range(6):
        waiting: list[tuple[int, list[int]]] = []
        for number in range(300):
            short, long = traffic.new(3), traffic.new(8)
            waiting.append((number + rng.randrange(2, 10), short if phase % 2 else long))
            traffic.send(short)
            traffic.send(long)
            due = [talk for when, talk in waiting if when == number]
            for talk in due:
                traffic.send([*talk, *traffic.new(1)])
    return traffic.hit_rate


@LEARNING
@pytest.mark.parametrize("num_pages", [20, 60, 100, 200])
def test_a_change_of_phase_costs_little_against_lru(eviction, num_pages: int) -> None:
    lru, learned = ratio_to_lru(changing, eviction, num_pages)
    assert learned > lru - 0.01


def loops(cache: PrefixCache) -> float:
    """A cycle a little larger than the pool: LRU finds nothing."""
    traffic = Traffic(cache)
    talks = [traffic.new(4) for _ in range(12)]
    for number in range(1200):
        traffic.send(talks[number % 12])
    return traffic.hit_rate


@LEARNING
def test_a_loop_larger_than_the_pool_is_kept_in_part(eviction) -> None:
    lru, learned = ratio_to_lru(loops, eviction, 40)
    assert lru == 0
    assert learned > 0.3


def two_turns(cache: PrefixCache, num_rounds: int) -> None:
    """Conversations whose answer is never asked for again."""
    traffic = Traffic(cache, tail=3)
    for _ in range(num_rounds):
        talk = traffic.new(8)
        traffic.send(talk)
        traffic.send([*talk, *traffic.new(2)])


def test_hazard_lets_the_end_go_that_continuations_leave_behind() -> None:
    cache = make_cache(60, 1, eviction="hazard")
    two_turns(cache, 40)  # each loses three pages; two is the power of two below
    talk = run_of(10**6, 12)
    put(cache, talk)
    tree = cache._state.tree
    leaf = tree.order.nodes()[[node.end for node in tree.order.nodes()].index(12)]
    whole = tree.policy.rank(leaf)
    assert tree.policy.quota(leaf) == 2
    while matched(cache, talk) == 12:
        cache.evict(2)
    assert matched(cache, talk) == 10
    assert tree.policy.quota(leaf) == 10
    assert tree.policy.rank(leaf) != whole


def test_evicted_visits_are_seen_to_return() -> None:
    seen: list[tuple[Kind, int]] = []

    class Spy(VisitPolicy):
        def describe(self, visit):
            seen.append((visit.kind, visit.turns))
            return self.table.row(visit.kind)

        def worth(self, key, age):
            return 0.0, float("inf")

    cache = make_cache(40, 1, eviction=Spy)
    put(cache, run_of(0, 6))
    cache.evict(6)
    put(cache, run_of(0, 9))
    assert seen == [(Kind.FIRST, 1), (Kind.NEXT, 2)]
    policy = cache._state.tree.policy
    assert policy.table.returns.sum() == 1


def test_kinds_of_visits() -> None:
    seen: list[Kind] = []

    class Spy(Hazard):
        def describe(self, visit):
            seen.append(visit.kind)
            return super().describe(visit)

    cache = make_cache(60, 1, eviction=Spy)
    put(cache, run_of(0, 8))
    assert seen == [Kind.FIRST]
    put(cache, [*run_of(0, 6), 100, 101])
    assert seen[1:] == [Kind.AGAIN, Kind.REST, Kind.NEXT]
    put(cache, [0, 1, 200, 201])
    assert seen[4:] == [Kind.SHARED, Kind.FIRST]


@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_a_sequence_that_publishes_in_chunks_is_one_visit(chunk: int) -> None:
    cache = make_cache(60, 1, eviction="wa")
    with cache.open(run_of(0, 8)) as seq:
        done = 0
        while done < 8:
            step = min(chunk, 8 - done)
            seq.reserve(step)
            seq.advance(step)
            seq.publish()
            done += step
    table = cache._state.tree.policy.table
    assert table.at_risk.sum() == 0.5  # one, at the age at which it still is


@pytest.mark.parametrize("eviction", ["wa", "hazard", "tlru", "gdsf"])
def test_equal_operations_choose_equal_victims_after_learning(eviction) -> None:
    def run() -> list[int]:
        cache = PrefixCache(CacheConfig(num_pages=100, page_size=1, eviction=eviction))
        scans_and_returns(cache, tail=2)
        return [node.number for node in cache._state.tree.order.nodes()]

    assert run() == run()


@LEARNING
def test_one_eviction_looks_at_classes_not_at_leaves(eviction) -> None:
    cache = make_cache(4000, 1, eviction=eviction)
    scans_and_returns(cache)
    order, policy = cache._state.tree.order, cache._state.tree.policy
    looked = 0
    value = policy.value

    def counting(key, age):
        nonlocal looked
        looked += 1
        return value(key, age)

    policy.value = counting
    policy.version += 1
    assert cache.evict(1) == 1
    assert len(order) > 200
    assert looked <= 4 * len(order._classes)


def test_tlru_takes_first_what_a_conversation_can_spare() -> None:
    cache = make_cache(40, 1, eviction=lambda num_pages: TLRU(num_pages, budget_pages=4))
    for first in (0, 100, 200):
        put(cache, run_of(first, 10))
    cache.evict(12)
    assert [matched(cache, run_of(first, 10)) for first in (0, 100, 200)] == [6, 6, 6]
    cache.evict(6)
    assert [matched(cache, run_of(first, 10)) for first in (0, 100, 200)] == [0, 6, 6]


def test_tlru_does_not_take_a_trimmed_conversation_for_a_shorter_one() -> None:
    cache = make_cache(40, 1, eviction=lambda num_pages: TLRU(num_pages, budget_pages=4))
    put(cache, run_of(0, 10))
    cache.evict(2)
    assert cache.evict(2) == 2
    put(cache, run_of(100, 10))
    cache.evict(4)
    assert matched(cache, run_of(0, 10)) == 6


@pytest.mark.usefixtures("unguarded")
def test_gdsf_keeps_what_costs_more_to_compute() -> None:
    cache = make_cache(10, 16384, eviction="gdsf")
    put(cache, range(6 * 16384))
    put(cache, range(10**6, 10**6 + 16384))
    assert cache.evict(1) == 1
    assert matched(cache, list(range(6 * 16384))) == 6 * 16384


def test_gdsf_moves_its_clock_with_evictions() -> None:
    cache = make_cache(8, 1, eviction="gdsf")
    put(cache, [1])
    for _ in range(3):
        put(cache, [1, 99], write=False)
    for number in range(100, 140):
        put(cache, [number])
    assert matched(cache, [1]) == 0


def test_locked_leaves_stand_in_no_class() -> None:
    cache = make_cache(40, 1, eviction="hazard")
    held = begin(cache, run_of(0, 8))
    held.publish()
    put(cache, run_of(100, 4))
    assert cache.evict(40) == 4
    held.close()
    assert cache.evict(40) == 8
    check(cache)
