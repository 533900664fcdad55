import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from radixcache import EVICTION_POLICIES, PrefixCache, Tokens, check
from radixcache.errors import CacheBusy, InvalidArgument, InvalidArgumentType, InvalidTokens, InvalidTokenType
from tests.property.dump import dump
from tests.steps import begin, make_cache, matched, put, run_of, tree_of

A, B, C = run_of(100, 2), run_of(200, 2), run_of(300, 2)


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=8, page_size=2)
    yield cache
    check(cache)


# peek


def test_peek_finds_the_longest_cached_prefix_and_its_pages(cache: PrefixCache) -> None:
    seq = begin(cache, A + B)
    seq.publish()
    match = cache.peek([*A, *B, *C])
    assert match.matched_len == 4
    assert match.pages.tolist() == seq.page_table.tolist()
    assert cache.peek([*A, *C]).pages.tolist() == seq.page_table.tolist()[:1]
    seq.abort()


@pytest.mark.parametrize(("num_tokens", "expected"), [(1, 0), (2, 0), (3, 2), (4, 2), (5, 4)])
def test_a_match_is_whole_pages_and_never_the_whole_prompt(
    cache: PrefixCache, num_tokens: int, expected: int
) -> None:
    put(cache, A + B + C)
    prompt = (A + B + C)[:num_tokens]
    assert cache.peek(prompt).matched_len == expected
    seq = cache.open(prompt)
    assert seq.matched_len == expected
    seq.abort()


def test_peek_changes_nothing(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, A + C)
    before = dump(cache)
    for prompt in (A, A + B, A + C + [1], [*A, 9, 9], [9]):
        for namespace in (None, "other"):
            cache.peek(prompt, namespace)
    assert dump(cache) == before


def test_a_match_stays_what_it_was_and_cannot_be_written(cache: PrefixCache) -> None:
    put(cache, A + B)
    match = cache.peek(A + B + C)
    cache.evict(2)
    assert (match.matched_len, len(match.pages)) == (4, 2)
    assert match.pages.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        match.pages[0] = 1


def test_a_match_of_nothing_has_no_pages(cache: PrefixCache) -> None:
    assert cache.peek(A).pages.tolist() == []


# open


def test_open_allocates_nothing(cache: PrefixCache) -> None:
    put(cache, A)
    seq = cache.open(A + B)
    assert cache.pages == (7, 0, 0, 1, 8)
    seq.abort()


def test_open_locks_what_it_matched(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = cache.open(A + B + C)
    assert cache.evict(8) == 0
    seq.abort()
    assert cache.evict(8) == 2


def test_open_neither_counts_nor_refreshes_before_the_first_reserve(cache: PrefixCache) -> None:
    put(cache, A)
    put(cache, B)
    for _ in range(100):
        cache.open([*A, 0]).abort()
    assert cache.stats.lookups == 2
    cache.evict(1)
    assert (matched(cache, A), matched(cache, B)) == (0, 2)


def test_the_first_reserve_refreshes_the_matched_prefix(cache: PrefixCache) -> None:
    put(cache, A)
    put(cache, B)
    seq = cache.open([*A, 0])
    seq.reserve(1)
    seq.abort()
    cache.evict(1)
    assert (matched(cache, A), matched(cache, B)) == (2, 0)


def test_abort_refreshes_nothing(cache: PrefixCache) -> None:
    put(cache, A)
    seq = cache.open([*A, 0])
    seq.reserve(1)
    put(cache, B)
    seq.abort()
    cache.evict(1)
    assert (matched(cache, A), matched(cache, B)) == (0, 2)


def test_a_partial_match_refreshes_the_matched_upper_half_only(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, C)
    seq = cache.open([*A, 0])
    seq.reserve(1)
    seq.abort()
    cache.evict(1)
    assert (matched(cache, A + B), matched(cache, C)) == (2, 2)
    cache.evict(1)
    assert (matched(cache, A + B), matched(cache, C)) == (2, 0)


def test_unread_sequences_match_and_count_nothing(cache: PrefixCache) -> None:
    put(cache, A + B)
    before = cache.stats
    seq = begin(cache, A + B + C, read=False)
    assert (seq.matched_len, seq.miss) == (0, None)
    assert dataclasses.replace(cache.stats, live_sequences=0) == before
    seq.close()
    assert matched(cache, A + B + C) == 6


def test_unwritten_sequences_leave_no_trace(cache: PrefixCache) -> None:
    put(cache, A)
    seq = begin(cache, A + B, write=False)
    seq.publish()
    seq.close()
    assert (matched(cache, A + B), cache.pages.private) == (2, 0)


def test_resumed_sequences_count_in_counters_of_their_own(cache: PrefixCache) -> None:
    put(cache, A)
    begin(cache, A + B, resumed=True).close()
    stats = cache.stats
    assert (stats.lookups, stats.prompt_tokens, stats.matched_tokens) == (1, 2, 0)
    assert (stats.resumed_lookups, stats.resumed_tokens, stats.resumed_matched_tokens) == (1, 4, 2)


def test_prompts_come_in_every_form(cache: PrefixCache) -> None:
    put(cache, A)
    for prompt in ([*A, 0], (*A, 0), np.array([*A, 0]), Tokens([*A, 0]), Tokens([*A, 0]).data):
        assert cache.peek(prompt).matched_len == 2


@pytest.mark.parametrize("name", ["peek", "open"])
@pytest.mark.parametrize(
    ("prompt", "error", "message"),
    [
        ([], InvalidTokens, "a prompt has at least one token, got none"),
        (Tokens([]), InvalidTokens, "at least one token"),
        (b"", InvalidTokens, "at least one token"),
        ([1, -1], InvalidTokens, "-1 at position 1"),
        ([2**31], InvalidTokens, "2147483648"),
        ([0.5], InvalidTokenType, "0.5"),
        (np.ones((2, 2), dtype=int), InvalidTokenType, r"\(2, 2\)"),
        ("text", InvalidTokenType, "str"),
    ],
)
def test_bad_prompts_are_refused_and_change_nothing(
    cache: PrefixCache, name: str, prompt: object, error: type[Exception], message: str
) -> None:
    before = dump(cache)
    with pytest.raises(error, match=message):
        getattr(cache, name)(prompt)
    assert dump(cache) == before


@pytest.mark.parametrize("name", ["peek", "open"])
def test_bad_namespaces_are_refused_and_change_nothing(cache: PrefixCache, name: str) -> None:
    before = dump(cache)
    with pytest.raises(InvalidArgumentType, match="1 of type int"):
        getattr(cache, name)(A, 1)
    assert dump(cache) == before


@pytest.mark.parametrize(
    ("hints", "error", "message"),
    [
        ({"priority": -1}, InvalidArgument, "priority is at least 0, got -1"),
        ({"priority": 0.5}, InvalidArgumentType, "priority is an integer, got 0.5"),
        ({"retain": -1.0}, InvalidArgument, "retain is at least 0, got -1.0"),
        ({"retain": math.inf}, InvalidArgument, "retain is a finite number of seconds"),
        ({"retain": math.nan}, InvalidArgument, "retain is a finite number of seconds"),
        ({"retain": "1"}, InvalidArgumentType, "retain is a number of seconds, got '1'"),
    ],
)
def test_bad_hints_are_refused_and_change_nothing(
    cache: PrefixCache, hints: dict[str, object], error: type[Exception], message: str
) -> None:
    before = dump(cache)
    with pytest.raises(error, match=message):
        cache.open(A, "new", **hints)
    assert dump(cache) == before


@pytest.mark.parametrize("eviction", EVICTION_POLICIES)
def test_hints_are_legal_with_every_policy(eviction: str) -> None:
    cache = make_cache(num_pages=4, page_size=2, eviction=eviction)
    for hints in (
        {"priority": 3},
        {"retain": 5},
        {"priority": np.int64(2), "retain": np.float32(1.5)},
        {"retain": 0},
    ):
        put(cache, A, **hints)
    check(cache)


# evict


def test_evict_frees_exactly_so_many_or_all(cache: PrefixCache) -> None:
    put(cache, A + B)
    put(cache, A + C)
    assert [cache.evict(0), cache.evict(2), cache.evict(9), cache.evict(1)] == [0, 2, 1, 0]
    assert cache.pages.free == 8


@pytest.mark.parametrize(
    ("num_pages", "error", "message"),
    [
        (-1, InvalidArgument, "num_pages is at least 0, got -1"),
        (1.5, InvalidArgumentType, "num_pages is an integer, got 1.5"),
        (None, InvalidArgumentType, "num_pages is an integer, got None"),
    ],
)
def test_evict_refuses_what_is_no_number_of_pages(
    cache: PrefixCache, num_pages: object, error: type[Exception], message: str
) -> None:
    put(cache, A)
    with pytest.raises(error, match=message):
        cache.evict(num_pages)
    assert cache.pages.evictable == 1


# reset


def test_reset_drops_every_page_and_every_record_and_keeps_the_counters() -> None:
    cache = make_cache(num_pages=8, page_size=2)
    put(cache, A)
    cache.evict(1)
    put(cache, B, "other")
    before = cache.stats
    cache.reset()
    assert cache.pages == (8, 0, 0, 0, 8)
    assert (matched(cache, A), matched(cache, B, "other")) == (0, 0)
    assert (cache.stats.num_ghosts, cache.stats.num_namespaces) == (0, 0)
    assert (cache.stats.lookups, cache.stats.evicted_pages) == (before.lookups, before.evicted_pages)
    check(cache)


def test_reset_is_refused_while_sequences_live(cache: PrefixCache) -> None:
    put(cache, A)
    seq = cache.open(A)
    before = dump(cache)
    with pytest.raises(CacheBusy, match="1 sequences live in the cache; close or abort them first"):
        cache.reset()
    assert dump(cache) == before
    seq.abort()
    cache.reset()
    assert cache.pages.free == 8


# retire


def test_retire_drops_one_namespace(cache: PrefixCache) -> None:
    put(cache, A + B, "gone")
    put(cache, A, "stays")
    assert cache.retire("gone") == 2
    assert (matched(cache, A, "gone"), matched(cache, A, "stays")) == (0, 2)


def test_retiring_what_is_not_there_does_nothing(cache: PrefixCache) -> None:
    put(cache, A)
    assert cache.retire("unknown") == 0
    assert matched(cache, A) == 2


def test_retire_refuses_what_is_no_namespace(cache: PrefixCache) -> None:
    with pytest.raises(InvalidArgumentType, match="2 of type int"):
        cache.retire(2)


def test_live_sequences_keep_what_they_use_of_a_retired_namespace_until_they_end(cache: PrefixCache) -> None:
    put(cache, A + B, "n")
    seq = begin(cache, [*A, *C], "n")
    assert cache.retire("n") == 1
    assert cache.pages == (6, 1, 0, 1, 8)
    seq.publish()
    assert (seq.published_len, cache.pages.private) == (2, 1)
    seq.close()
    assert cache.pages.free == 8


def test_a_retired_namespace_starts_with_nothing_beside_those_who_still_use_it(cache: PrefixCache) -> None:
    put(cache, A, "n")
    old = begin(cache, [*A, 0], "n")
    cache.retire("n")
    new = begin(cache, [*A, 0], "n")
    assert new.matched_len == 0
    new.close()
    assert matched(cache, A, "n") == 2
    old.close()
    assert matched(cache, A, "n") == 2
    assert cache.retire("n") == 1


def test_forks_of_a_retired_namespace_publish_nothing(cache: PrefixCache) -> None:
    seq = begin(cache, [*A, *B, 0], "n")
    seq.publish()
    cache.retire("n")
    child = seq.fork()
    child.take_copies()
    for each in (seq, child):
        each.append(C)
        each.reserve(2)
        each.advance(2)
        each.close()
        check(cache)
    assert cache.pages.free == 8


def test_retiring_is_no_eviction(cache: PrefixCache) -> None:
    put(cache, A + B, "n")
    cache.retire("n")
    assert (cache.stats.evictions, cache.stats.evicted_pages, cache.stats.num_ghosts) == (0, 0, 0)


# time


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf])
def test_time_is_finite(cache: PrefixCache, now: float) -> None:
    with pytest.raises(InvalidArgument, match="now is a finite number"):
        cache.advance_time(now)


def test_time_is_a_number(cache: PrefixCache) -> None:
    with pytest.raises(InvalidArgumentType, match="now is a number of seconds, got 'noon'"):
        cache.advance_time("noon")


def test_time_does_not_fall(cache: PrefixCache) -> None:
    cache.advance_time(2.5)
    cache.advance_time(2.5)
    with pytest.raises(InvalidArgument, match=r"time cannot go from 2\.5 to 2\.4"):
        cache.advance_time(2.4)


def test_time_may_begin_anywhere(cache: PrefixCache) -> None:
    cache.advance_time(-1e9)
    cache.advance_time(0)


# statistics


def test_pages_count_every_state_and_sum_to_the_pool(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = begin(cache, [*A, 1, 2, 3])
    assert cache.pages == (4, 2, 1, 1, 8)
    assert cache.pages.available == 5
    seq.abort()


def test_stats_are_frozen(cache: PrefixCache) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        cache.stats.lookups = 3
    with pytest.raises(TypeError, match="does not support item assignment"):
        cache.stats.missed_tokens["evicted"] = 3


def test_stats_are_those_of_their_moment(cache: PrefixCache) -> None:
    before = cache.stats
    put(cache, A)
    assert (before.lookups, cache.stats.lookups) == (0, 1)
    assert sum(before.missed_tokens.values()) == 0


def test_gauges_follow_what_lives(cache: PrefixCache) -> None:
    put(cache, A + B, "n")
    seq = cache.open([*A, 0], "n")
    stats = cache.stats
    assert (stats.live_sequences, stats.num_nodes, stats.num_namespaces) == (1, 2, 1)
    seq.abort()
    assert len(tree_of(cache, "n")) == cache.stats.num_nodes == 1


def test_the_hit_rate_is_zero_before_the_first_lookup_and_then_token_weighted(cache: PrefixCache) -> None:
    assert cache.stats.hit_rate == 0.0
    put(cache, A + B)
    put(cache, [*A, *B, 0])
    assert cache.stats.hit_rate == 4 / 9


# observers


class Deaf:
    def published(self, *told: object) -> None:
        raise AssertionError("told after it unsubscribed")

    evicted = published


def test_an_observer_that_left_is_told_nothing(cache: PrefixCache) -> None:
    observer = Deaf()
    cache.subscribe(observer)
    cache.unsubscribe(observer)
    put(cache, A)


class Counting:
    """Counts what it is told, and acts as soon as it is told anything."""

    def __init__(self, act: Callable[[], None] = lambda: None) -> None:
        self.act = act
        self.num_told = 0

    def published(self, *told: object) -> None:
        self.num_told += 1
        if self.num_told == 1:
            self.act()

    evicted = published


def test_who_leaves_while_it_is_told_keeps_no_event_from_the_next(cache: PrefixCache) -> None:
    leaving = Counting(lambda: cache.unsubscribe(leaving))
    staying = Counting()
    for observer in (leaving, staying):
        cache.subscribe(observer)
    put(cache, A)
    cache.evict(1)
    assert (leaving.num_told, staying.num_told) == (1, 2)


def test_who_comes_while_others_are_told_is_told_from_the_next_event_on(cache: PrefixCache) -> None:
    late = Counting()
    cache.subscribe(Counting(lambda: cache.subscribe(late)))
    put(cache, A)
    assert late.num_told == 0
    cache.evict(1)
    assert late.num_told == 1


def test_a_stranger_cannot_leave(cache: PrefixCache) -> None:
    with pytest.raises(InvalidArgument, match="is not subscribed"):
        cache.unsubscribe(Deaf())
