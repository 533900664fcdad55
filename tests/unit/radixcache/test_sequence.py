from collections.abc import Iterator

import numpy as np
import pytest

from radixcache import OutOfPages, PrefixCache, check
from radixcache.errors import InvalidArgument, InvalidArgumentType, InvalidTokens, InvalidTokenType
from tests.property.dump import dump
from tests.steps import begin, compute, fill, make_cache, matched, pages_of, put, run_of

A, B, C = run_of(100, 4), run_of(200, 4), run_of(300, 4)


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=8, page_size=4, first_page=3)
    yield cache
    check(cache)


# What it is


def test_lengths_follow_the_verbs(cache: PrefixCache) -> None:
    put(cache, A)
    seq = cache.open([*A, *B, 1])

    def lengths() -> tuple[int, ...]:
        return seq.num_tokens, seq.computed_len, seq.published_len, seq.reserved_len

    assert (seq.prompt_len, seq.matched_len) == (9, 4)
    assert lengths() == (9, 4, 4, 4)
    seq.reserve(5)
    assert lengths() == (9, 4, 4, 12)
    seq.advance(4)
    assert lengths() == (9, 8, 4, 12)
    seq.publish()
    assert lengths() == (9, 8, 8, 12)
    seq.append([2, 3])
    assert lengths() == (11, 8, 8, 12)
    assert (seq.prompt_len, seq.matched_len) == (9, 4)
    seq.abort()


# page_table and slots


def test_the_page_table_names_pages_in_position_order(cache: PrefixCache) -> None:
    cached = put(cache, A)
    seq = cache.open([*A, *B])
    assert seq.page_table.tolist() == cached
    seq.reserve(4)
    assert seq.page_table.dtype == np.int32
    assert seq.page_table.tolist()[:1] == cached
    assert len(set(seq.page_table.tolist())) == 2
    seq.abort()


def test_the_page_table_of_no_pages_is_empty(cache: PrefixCache) -> None:
    seq = cache.open(A)
    assert seq.page_table.shape == (0,)
    seq.abort()


def test_the_page_table_cannot_be_written_in_any_state(cache: PrefixCache) -> None:
    put(cache, A)
    seq = cache.open([*A, *B])
    for step in (
        lambda: None,
        lambda: seq.reserve(4),
        lambda: seq.advance(4),
        seq.publish,
        lambda: seq.reserve(9),
    ):
        step()
        with pytest.raises(ValueError, match="read-only"):
            seq.page_table[0] = 1
    seq.abort()


def test_reading_the_page_table_does_not_stop_later_verbs(cache: PrefixCache) -> None:
    seq = cache.open(A + B)
    seq.reserve(4)
    first = seq.page_table
    seq.reserve(8)
    assert seq.page_table.tolist()[:1] == first.tolist()
    seq.advance(8)
    put(cache, A)
    seq.publish()
    assert seq.page_table.tolist() == pages_of(cache, A + B)
    seq.abort()


def test_slots_follow_the_page_table(cache: PrefixCache) -> None:
    put(cache, A)
    put(cache, C)
    seq = begin(cache, [*A, *B, 1])
    table = seq.page_table
    expected = [int(table[position // 4]) * 4 + position % 4 for position in range(9)]
    assert seq.slots(0, 9).tolist() == expected
    assert seq.slots(3, 7).tolist() == expected[3:7]
    assert seq.slots(4, 4).tolist() == []
    assert seq.slots(0, 12).dtype == np.int64
    seq.abort()


def test_slots_do_not_wrap_round_int32() -> None:
    cache = make_cache(num_pages=2, page_size=64, first_page=2**31 - 2)
    seq = begin(cache, [1, 2])
    assert seq.slots(1, 2).tolist() == [(2**31 - 2) * 64 + 1]
    seq.abort()


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 9), (9, 9)])
def test_slots_lie_within_what_is_reserved(cache: PrefixCache, start: int, stop: int) -> None:
    seq = begin(cache, A + B)
    with pytest.raises(InvalidArgument, match=rf"0 <= start <= stop <= 8, got \[{start}, {stop}\)"):
        seq.slots(start, stop)
    seq.abort()


def test_slots_are_asked_for_with_integers(cache: PrefixCache) -> None:
    seq = begin(cache, A)
    assert seq.slots(np.int64(0), np.uint8(2)).shape == (2,)
    with pytest.raises(InvalidArgumentType, match=r"stop is an integer, got 2\.0"):
        seq.slots(0, 2.0)
    with pytest.raises(InvalidArgumentType, match="start is an integer, got None"):
        seq.slots(None, 2)
    seq.abort()


# reserve


def test_reserve_is_idempotent_and_not_cumulative(cache: PrefixCache) -> None:
    seq = cache.open(A + B)
    for extend_len in (5, 5, 8, 1):
        seq.reserve(extend_len)
    assert (seq.reserved_len, cache.pages.private) == (8, 2)
    seq.abort()


def test_reserve_counts_from_what_is_computed(cache: PrefixCache) -> None:
    seq = begin(cache, A)
    seq.reserve(4)
    assert seq.reserved_len == 8
    seq.abort()


def test_reserve_may_reach_past_what_is_known(cache: PrefixCache) -> None:
    seq = cache.open([1])
    seq.reserve(20)
    assert (seq.reserved_len, seq.num_tokens) == (20, 1)
    seq.abort()


def test_reserve_evicts_exactly_what_is_short(cache: PrefixCache) -> None:
    put(cache, run_of(0, 28))
    seq = cache.open(A + B + C)
    seq.reserve(12)
    assert (cache.stats.evicted_pages, cache.pages) == (2, (0, 3, 5, 0, 8))
    seq.abort()


def test_a_failed_reserve_changes_nothing_and_says_why(cache: PrefixCache) -> None:
    put(cache, A)
    put(cache, B)
    seq = cache.open([*A, *C])
    before = dump(cache, without_failed_reserves=True)
    for attempt in range(1, 4):
        with pytest.raises(OutOfPages) as caught:
            seq.reserve(32)
        error = caught.value
        assert (error.needed, error.free, error.evictable, error.locked) == (8, 6, 1, 1)
        assert dump(cache, without_failed_reserves=True) == before
        assert cache.stats.failed_reserves == attempt
    seq.reserve(28)
    seq.abort()


def test_counting_happens_at_the_first_success_only(cache: PrefixCache) -> None:
    seq = cache.open(A + B)
    with pytest.raises(OutOfPages):
        seq.reserve(99)
    assert cache.stats.lookups == 0
    for extend_len in (1, 8, 1):
        seq.reserve(extend_len)
        assert (cache.stats.lookups, cache.stats.prompt_tokens) == (1, 8)
    seq.abort()


@pytest.mark.parametrize("extend_len", [0, -1, -(10**9)])
def test_reserve_wants_at_least_one_token(cache: PrefixCache, extend_len: int) -> None:
    seq = cache.open(A)
    with pytest.raises(InvalidArgument, match=f"extend_len is at least 1, got {extend_len}"):
        seq.reserve(extend_len)
    assert seq.state == "open"
    seq.abort()


@pytest.mark.parametrize("extend_len", [1.0, "1", None])
def test_reserve_wants_an_integer(cache: PrefixCache, extend_len: object) -> None:
    seq = cache.open(A)
    with pytest.raises(InvalidArgumentType, match="extend_len is an integer"):
        seq.reserve(extend_len)
    seq.abort()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64])
def test_numpy_integers_are_lengths_and_do_not_wrap_round(kind: type[np.integer]) -> None:
    cache = make_cache(num_pages=600, page_size=1)
    seq = cache.open(run_of(0, 500))
    seq.reserve(400)
    seq.advance(400)
    seq.reserve(kind(100))
    seq.advance(kind(100))
    assert seq.computed_len == 500
    assert type(seq.computed_len) is int
    seq.close()
    check(cache)


# advance


def test_advance_moves_what_is_computed(cache: PrefixCache) -> None:
    seq = cache.open(A)
    seq.reserve(4)
    seq.advance(0)
    seq.advance(3)
    assert seq.computed_len == 3
    seq.abort()


@pytest.mark.parametrize("extend_len", [-1, 5, 9, 10**9])
def test_advance_stays_within_what_is_known_and_reserved(cache: PrefixCache, extend_len: int) -> None:
    seq = cache.open([*A, *B, 1])
    seq.reserve(4)
    message = f"cannot advance by {extend_len}: 0 tokens are computed, 9 known, 4 have pages"
    with pytest.raises(InvalidArgument, match=message):
        seq.advance(extend_len)
    assert seq.computed_len == 0
    seq.abort()


def test_advance_does_not_pass_what_is_known(cache: PrefixCache) -> None:
    seq = cache.open(A)
    seq.reserve(8)
    with pytest.raises(InvalidArgument, match="4 known, 8 have pages"):
        seq.advance(5)
    seq.append([1])
    seq.advance(5)
    seq.abort()


@pytest.mark.parametrize("extend_len", [1.0, "1", None])
def test_advance_wants_an_integer(cache: PrefixCache, extend_len: object) -> None:
    seq = cache.open(A)
    seq.reserve(4)
    with pytest.raises(InvalidArgumentType, match="extend_len is an integer"):
        seq.advance(extend_len)
    seq.abort()


# append


def test_appended_tokens_are_known_and_cached_in_order(cache: PrefixCache) -> None:
    seq = begin(cache, A[:3])
    for token in (A[3], *B[:2]):
        seq.append([token])
    seq.append(np.array(B[2:]))
    seq.append([])
    compute(seq)
    seq.close()
    assert matched(cache, A + B) == 8


@pytest.mark.parametrize(
    ("token_ids", "error"),
    [([1, -1], InvalidTokens), ([2**31], InvalidTokens), ([0.5], InvalidTokenType), (7, InvalidTokenType)],
)
def test_bad_tokens_are_not_appended(cache: PrefixCache, token_ids: object, error: type[Exception]) -> None:
    seq = cache.open(A)
    with pytest.raises(error):
        seq.append(token_ids)
    assert seq.num_tokens == 4
    seq.abort()


@pytest.mark.parametrize("cut", range(1, 12))
def test_pages_across_the_end_of_the_prompt_hold_prompt_and_answer(cache: PrefixCache, cut: int) -> None:
    tokens = A + B + C
    seq = begin(cache, tokens[:cut])
    seq.publish()
    seq.append(tokens[cut:])
    compute(seq)
    seq.close()
    assert matched(cache, tokens) == 12


# publish


def test_publish_shows_written_full_pages_only(cache: PrefixCache) -> None:
    seq = cache.open(A + B + C)
    seq.reserve(12)
    for computed, visible in ((3, 0), (4, 4), (7, 4), (11, 8)):
        seq.advance(computed - seq.computed_len)
        seq.publish()
        assert (matched(cache, A + B + C), seq.published_len) == (visible, visible)
    seq.abort()


def test_publishing_twice_is_publishing_once(cache: PrefixCache) -> None:
    seq = begin(cache, A + B)
    seq.publish()
    before = dump(cache)
    seq.publish()
    assert dump(cache) == before
    seq.abort()


def test_pages_published_by_somebody_else_first_are_swapped_and_given_back(cache: PrefixCache) -> None:
    first, second = begin(cache, A + B), begin(cache, A + B + C)
    first.publish()
    own = second.page_table.tolist()
    second.publish()
    assert second.page_table.tolist()[:2] == first.page_table.tolist()
    assert second.page_table.tolist()[2:] == own[2:]
    assert (cache.pages.free, cache.stats.duplicate_pages) == (5, 2)
    first.abort()
    second.abort()


def test_publishing_duplicates_alone_refreshes_nothing(cache: PrefixCache) -> None:
    first, second = begin(cache, A), begin(cache, A)
    first.close()
    put(cache, B)
    second.publish()
    second.close()
    cache.evict(1)
    assert (matched(cache, A), matched(cache, B)) == (0, 4)


def test_published_pages_stay_locked_by_their_publisher(cache: PrefixCache) -> None:
    seq = begin(cache, A + B)
    seq.publish()
    assert cache.pages == (6, 0, 0, 2, 8)
    assert cache.evict(8) == 0
    seq.abort()


# close and abort


def test_close_publishes_and_gives_back_the_rest(cache: PrefixCache) -> None:
    seq = cache.open([*A, *B, 1])
    seq.reserve(16)
    seq.advance(9)
    seq.close()
    assert (cache.pages, matched(cache, A + B)) == ((6, 0, 2, 0, 8), 8)


def test_close_does_not_publish_what_was_not_written(cache: PrefixCache) -> None:
    seq = cache.open(A + B)
    seq.reserve(8)
    seq.advance(4)
    seq.close()
    assert (cache.pages, matched(cache, A + B)) == ((7, 0, 1, 0, 8), 4)


def test_abort_gives_back_from_the_published_length_on(cache: PrefixCache) -> None:
    put(cache, A)
    seq = begin(cache, A + B)
    seq.publish()
    seq.append(C)
    compute(seq)
    seq.abort()
    assert (cache.pages, matched(cache, A + B + C)) == ((6, 0, 2, 0, 8), 8)


def test_a_sequence_that_ended_keeps_its_numbers(cache: PrefixCache) -> None:
    seq = begin(cache, A)
    seq.close()
    assert (seq.num_tokens, seq.computed_len, seq.matched_len) == (4, 4, 0)


def test_ending_in_a_full_pool_costs_no_page(cache: PrefixCache) -> None:
    seq = begin(cache, A)
    fill(cache)
    seq.close()
    assert cache.pages == (0, 0, 8, 0, 8)
