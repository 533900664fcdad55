from array import array
from collections.abc import Iterator
from itertools import permutations

import pytest

from radixcache import MissReason, PrefixCache, Sequence, check
from radixcache.misses import GhostTable, InFlight, Miss
from tests.steps import begin, make_cache, put, run_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))
NEVER, EVICTED, ELSEWHERE = MissReason.NEVER_SEEN, MissReason.EVICTED, MissReason.OTHER_NAMESPACE
IN_FLIGHT, SHORT, LAST = MissReason.IN_FLIGHT, MissReason.SHORTER_THAN_PAGE, MissReason.LAST_TOKEN


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=12, page_size=4)
    yield cache
    check(cache)


def miss_of(cache: PrefixCache, prompt: list[int], namespace: str | None = None) -> Miss:
    seq = cache.open(prompt, namespace)
    seq.abort()
    assert seq.miss is not None
    assert sum(seq.miss.tokens_by_reason().values()) == len(prompt) - seq.matched_len
    return seq.miss


# The six reasons


def test_never_seen(cache: PrefixCache) -> None:
    put(cache, A)
    assert miss_of(cache, [*A, *B, *C, 1]) == Miss(NEVER, 8, SHORT, 1)
    assert miss_of(cache, [*B, 1]) == Miss(NEVER, 4, SHORT, 1)


def test_evicted_and_how_many_lookups_ago(cache: PrefixCache) -> None:
    put(cache, A + B)
    cache.evict(1)
    assert miss_of(cache, [*A, *B, *C, 1]) == Miss(EVICTED, 8, SHORT, 1, age=0)
    put(cache, C)
    put(cache, D)
    assert miss_of(cache, [*A, *B, 1]) == Miss(EVICTED, 4, SHORT, 1, age=2)


def test_evicted_and_how_many_seconds_ago(cache: PrefixCache) -> None:
    cache.advance_time(10.0)
    put(cache, A)
    cache.evict(1)
    cache.advance_time(12.5)
    put(cache, B)
    assert miss_of(cache, [*A, 1]).age == 2.5


def test_other_namespace(cache: PrefixCache) -> None:
    put(cache, A + B, "one")
    assert miss_of(cache, [*A, *B, 1], "two") == Miss(ELSEWHERE, 8, SHORT, 1)
    assert miss_of(cache, [*A, *C, 1], "one") == Miss(NEVER, 4, SHORT, 1)


def test_other_namespace_means_the_whole_prefix_is_there(cache: PrefixCache) -> None:
    put(cache, A + B, "one")
    put(cache, C, "two")
    assert miss_of(cache, [*C, *B, 1], "two").reason is NEVER
    put(cache, A, "two")
    assert miss_of(cache, [*A, *B, 1], "two").reason is ELSEWHERE


def test_a_namespace_that_was_retired_is_no_other_namespace(cache: PrefixCache) -> None:
    seq = begin(cache, [*A, 1], "one")
    seq.publish()
    cache.retire("one")
    assert miss_of(cache, [*A, 1], "two").reason is NEVER
    assert miss_of(cache, [*A, 1], "one").reason is NEVER
    seq.abort()


@pytest.mark.parametrize("leaving", [*permutations(["one", "two", "three"])])
def test_namespaces_that_hold_the_same_page_are_known_until_the_last_leaves(
    cache: PrefixCache, leaving: tuple[str, ...]
) -> None:
    for namespace in ("one", "two", "three"):
        put(cache, A, namespace)
    for namespace in leaving:
        assert miss_of(cache, [*A, 1], "other").reason is ELSEWHERE
        cache.retire(namespace)
    assert miss_of(cache, [*A, 1], "other").reason is NEVER


def test_in_flight_while_somebody_computes_the_next_page(cache: PrefixCache) -> None:
    seq = cache.open([*A, *B, 1])
    assert miss_of(cache, [*A, *C, 1]) == Miss(IN_FLIGHT, 8, SHORT, 1)
    assert miss_of(cache, [*B, 1]).reason is NEVER
    assert miss_of(cache, [*A, 1], "other").reason is NEVER
    seq.reserve(9)
    seq.advance(4)
    seq.publish()
    assert miss_of(cache, [*A, *B, 1]) == Miss(IN_FLIGHT, 4, SHORT, 1)
    assert miss_of(cache, [*A, *C, 1]).reason is NEVER
    seq.abort()
    assert miss_of(cache, [*A, *B, 1]).reason is NEVER


def test_a_sequence_is_not_in_its_own_way(cache: PrefixCache) -> None:
    seq = cache.open([*A, 1])
    assert seq.miss == Miss(NEVER, 4, SHORT, 1)
    seq.abort()


def test_unwritten_sequences_are_not_waited_for(cache: PrefixCache) -> None:
    seq = cache.open([*A, 1], write=False)
    assert miss_of(cache, [*A, 1]).reason is NEVER
    seq.abort()


def test_two_that_compute_one_page_both_have_to_leave(cache: PrefixCache) -> None:
    one, two = cache.open([*A, 1]), cache.open([*A, 2])
    one.abort()
    assert miss_of(cache, [*A, 1]).reason is IN_FLIGHT
    two.abort()
    assert miss_of(cache, [*A, 1]).reason is NEVER


def test_forks_are_in_flight_as_their_parents(cache: PrefixCache) -> None:
    parent = cache.open([*A, *B, 1])
    parent.reserve(9)
    parent.advance(4)
    child = parent.fork()
    parent.abort()
    assert miss_of(cache, [*A, *B, 1]).reason is IN_FLIGHT
    child.abort()


@pytest.mark.parametrize("num_tokens", [1, 2, 3])
def test_shorter_than_a_page(cache: PrefixCache, num_tokens: int) -> None:
    assert miss_of(cache, A[:num_tokens]) == Miss(None, 0, SHORT, num_tokens)


def test_the_page_of_the_last_token(cache: PrefixCache) -> None:
    put(cache, A + B)
    assert miss_of(cache, A) == Miss(None, 0, LAST, 4)
    assert miss_of(cache, A + B) == Miss(None, 0, LAST, 4)


def test_tokens_by_reason_leaves_out_what_is_not_there() -> None:
    assert Miss(None, 0, LAST, 4).tokens_by_reason() == {LAST: 4}
    assert Miss(NEVER, 8, SHORT, 1).tokens_by_reason() == {NEVER: 8, SHORT: 1}


def test_unread_sequences_have_no_reason(cache: PrefixCache) -> None:
    seq = cache.open([*A, 1], read=False)
    assert seq.miss is None
    seq.abort()


def test_the_reasons_are_counted_at_the_first_reserve_and_sum_with_the_matches(cache: PrefixCache) -> None:
    put(cache, A)
    put(cache, [*A, *B, 1])
    stats = cache.stats
    assert stats.missed_tokens == {NEVER: 4, LAST: 4, SHORT: 1, EVICTED: 0, ELSEWHERE: 0, IN_FLIGHT: 0}
    assert stats.matched_tokens + sum(stats.missed_tokens.values()) == stats.prompt_tokens == 13


# Ghosts


def num_boundaries(cache: PrefixCache) -> int:
    return len(cache._state.ghosts.anchors())


def test_the_boundary_moves_up_as_more_is_evicted(cache: PrefixCache) -> None:
    put(cache, A + B + C)
    for kept in (2, 1, 0):
        cache.evict(1)
        assert num_boundaries(cache) == 1
        prompt = [*A, *B, *C, 1]
        assert miss_of(cache, prompt) == Miss(EVICTED, 12 - 4 * kept, SHORT, 1, age=0)


def test_each_branch_has_a_boundary_until_its_trunk_goes(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, A + C)
    cache.evict(2)
    assert num_boundaries(cache) == 2
    cache.evict(1)
    assert num_boundaries(cache) == 1
    assert miss_of(cache, [*A, *C, 1]).reason is EVICTED


def test_a_record_is_of_one_prefix_only(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, C)
    cache.evict(1)
    assert miss_of(cache, [*C, *B, 1]).reason is NEVER
    assert miss_of(cache, [*B, 1]).reason is NEVER


def test_a_record_goes_when_its_page_comes_back(cache: PrefixCache) -> None:
    put(cache, A + B)
    cache.evict(1)
    put(cache, A + B)
    assert cache.stats.num_ghosts == 0


def test_a_record_does_not_outlive_the_page_it_stands_on(cache: PrefixCache) -> None:
    page = put(cache, A + B)[0]
    cache.evict(1)
    assert miss_of(cache, [*A, *B, 1]).reason is EVICTED
    cache.evict(1)
    assert put(cache, D) == [page]
    assert miss_of(cache, [*D, *B, 1]) == Miss(NEVER, 4, SHORT, 1)


def test_a_later_eviction_of_the_same_page_counts_from_then(cache: PrefixCache) -> None:
    for now in (1.0, 5.0):
        cache.advance_time(now)
        put(cache, A)
        cache.evict(1)
    cache.advance_time(7.0)
    assert miss_of(cache, [*A, 1]).age == 2.0


@pytest.mark.parametrize("max_ghosts", [0, 1, 3])
def test_the_records_are_bounded_and_the_oldest_go(max_ghosts: int) -> None:
    cache = make_cache(num_pages=12, page_size=4, max_ghosts=max_ghosts)
    for number in range(10):
        put(cache, run_of(100 * number, 4))
    for gone in range(1, 11):
        cache.evict(1)
        assert cache.stats.num_ghosts == min(gone, max_ghosts)
        check(cache)
    reasons = [miss_of(cache, [*run_of(100 * number, 4), 1]).reason for number in range(10)]
    assert reasons == [NEVER] * (10 - max_ghosts) + [EVICTED] * max_ghosts


def test_evicted_is_said_before_other_namespace_and_in_flight_before_both(cache: PrefixCache) -> None:
    put(cache, A, "one")
    cache.evict(1)
    put(cache, A, "two")
    assert miss_of(cache, [*A, 1], "one").reason is EVICTED
    seq = cache.open([*A, 1], "one")
    assert miss_of(cache, [*A, 1], "one").reason is IN_FLIGHT
    seq.abort()


def test_a_table_forgets_records_behind_pages_and_no_others() -> None:
    table = GhostTable(8, first_page=5, num_pages=20)
    for page in range(5, 25):
        table.evicted(page, b"next", time=1.0)
    assert len(table.anchors()) == 8
    table.forget_behind(array("i", range(5, 20)))
    assert sorted(table.anchors()) == [20, 21, 22, 23, 24]
    assert table.time_of(24, b"next") == 1.0
    table.forget_behind(array("i", [20]))
    assert table.time_of(20, b"next") is None


def test_a_table_keeps_several_records_on_one_page() -> None:
    table = GhostTable(8, first_page=0, num_pages=4)
    table.evicted(2, b"one", 1.0)
    table.evicted(2, b"two", 2.0)
    table.published(2, b"one")
    assert (table.time_of(2, b"one"), table.time_of(2, b"two")) == (None, 2.0)
    table.forget_behind(array("i", [2]))
    assert table.anchors() == []


def test_a_page_that_is_used_again_has_no_record_of_its_former_life() -> None:
    table = GhostTable(8, first_page=0, num_pages=4)
    table.evicted(2, b"one", 1.0)
    table.forget_behind(array("i", [2]))
    assert table.time_of(2, b"one") is None
    table.evicted(2, b"one", 3.0)
    assert table.time_of(2, b"one") == 3.0


def test_a_record_made_anew_does_not_leave_with_its_first_making() -> None:
    table = GhostTable(2, first_page=0, num_pages=4)
    table.evicted(2, b"one", 1.0)
    table.published(2, b"one")
    table.evicted(2, b"one", 2.0)
    table.evicted(2, b"two", 3.0)
    assert (table.time_of(2, b"one"), table.time_of(2, b"two")) == (2.0, 3.0)
    assert len(table) == 2


def test_a_page_in_flight_is_counted_by_those_who_compute_it() -> None:
    register = InFlight()
    register.add((1, b"next"))
    register.add((1, b"next"))
    register.discard((1, b"next"))
    assert (1, b"next") in register
    register.discard((1, b"next"))
    assert (1, b"next") not in register


def test_resumed_sequences_are_explained_and_not_counted(cache: PrefixCache) -> None:
    seq: Sequence = begin(cache, [*A, 1], resumed=True)
    assert seq.miss == Miss(NEVER, 4, SHORT, 1)
    assert sum(cache.stats.missed_tokens.values()) == 0
    seq.abort()
