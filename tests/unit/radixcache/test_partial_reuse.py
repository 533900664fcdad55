from collections.abc import Iterator

import pytest

import radixcache.agreement
from radixcache import OutOfPages, PageCopy, PrefixCache, check
from tests.property.dump import dump
from tests.steps import Engine, begin, compute, make_cache, matched, pages_of, put, run_of, tree_of

A, B, C = run_of(100, 4), run_of(200, 4), run_of(300, 4)


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=8, page_size=4, partial_reuse=True)
    yield cache
    check(cache)


def test_it_is_off_by_default() -> None:
    cache = make_cache()
    put(cache, A + B)
    assert cache.open([*A, *B[:3], 1]).partial is None


def test_open_offers_the_start_of_a_cached_page(cache: PrefixCache) -> None:
    pages = put(cache, A + B)
    seq = cache.open([*A, *B[:3], 1])
    assert (seq.matched_len, seq.computed_len) == (4, 4)
    assert seq.partial == (pages[1], 3)
    assert seq.take_copies() == []
    seq.abort()


def test_reserve_gives_a_page_and_a_copy_order_and_the_tokens_count_as_computed(cache: PrefixCache) -> None:
    pages = put(cache, A + B)
    seq = cache.open([*A, *B[:3], 1])
    seq.reserve(4)
    assert (seq.partial, seq.matched_len, seq.computed_len) == (None, 4, 7)
    assert seq.take_copies() == [PageCopy(pages[1], seq.page_table.tolist()[1], 3)]
    assert cache.stats.copied_tokens == 3
    seq.advance(1)
    seq.close()
    assert matched(cache, [*A, *B[:3], 1]) == 8


def test_the_reserved_length_counts_from_before_the_call(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = cache.open([*A, *B[:3], *C])
    seq.reserve(4)
    assert (seq.computed_len, seq.reserved_len) == (7, 8)
    seq.abort()


def test_a_copy_may_cover_more_than_was_reserved_for(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = cache.open([*A, *B[:3], *C])
    seq.reserve(1)
    assert (seq.computed_len, seq.reserved_len) == (7, 8)
    seq.take_copies()
    seq.advance(0)
    seq.abort()


def test_the_offer_ends_one_token_before_the_end_of_the_prompt(cache: PrefixCache) -> None:
    put(cache, A + B)
    for num_tokens in (1, 2, 3, 4):
        seq = cache.open(A + B[:num_tokens])
        assert (0 if seq.partial is None else seq.partial.num_tokens) == num_tokens - 1
        seq.abort()


def test_the_longest_agreement_is_offered_the_lowest_number_among_equals(cache: PrefixCache) -> None:
    put(cache, [*A, 1, 1, 1, 1])
    longer = put(cache, [*A, 1, 2, 2, 2])
    seq = cache.open([*A, 1, 2, 9, 9])
    assert seq.partial == (longer[1], 2)
    seq.abort()
    seq = cache.open([*A, 1, 9, 9, 9])
    assert seq.partial is not None
    numbers = {
        node.last_page(): node.number
        for root in cache._state.tree.all_roots()
        for node in cache._state.tree.nodes(root)
    }
    assert numbers[seq.partial.source_page] == min(
        numbers[page] for page in (longer[1], pages_of(cache, [*A, 1, 1, 1, 1])[1])
    )
    seq.abort()


def test_the_source_stays_locked_until_the_copy_was_made(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = cache.open([*A, *B[:3], 1])
    assert cache.evict(8) == 0
    seq.reserve(4)
    assert cache.evict(8) == 0
    seq.take_copies()
    assert cache.evict(8) == 0
    seq.advance(1)
    assert cache.evict(8) == 1
    seq.abort()


@pytest.mark.parametrize("ending", ["close", "abort"])
@pytest.mark.parametrize("is_reserved", [False, True])
def test_the_source_is_unlocked_when_the_sequence_ends(
    cache: PrefixCache, ending: str, is_reserved: bool
) -> None:
    put(cache, A + B)
    seq = cache.open([*A, *B[:3], 1])
    if is_reserved:
        seq.reserve(4)
    getattr(seq, ending)()
    assert cache.evict(8) == 2
    assert cache.pages.free == 8


def test_only_the_first_page_of_the_source_edge_is_locked(cache: PrefixCache) -> None:
    put(cache, A + B + C)
    seq = cache.open([*A, *B[:3], 1])
    assert cache.pages[2:4] == (1, 2)
    seq.abort()
    assert len(tree_of(cache)) == 1


def test_an_offer_whose_own_lock_stands_in_the_way_is_dropped(cache: PrefixCache) -> None:
    put(cache, A + B)
    other = cache.open(run_of(900, 24))
    other.reserve(24)
    seq = cache.open([*A, *B[:3], 1])
    assert cache.pages.available == 0
    seq.reserve(4)
    assert (seq.partial, seq.computed_len, seq.take_copies()) == (None, 4, [])
    assert cache.stats.copied_tokens == 0
    seq.abort()
    other.abort()


def test_an_offer_is_kept_where_dropping_it_would_not_help(cache: PrefixCache) -> None:
    put(cache, A + B)
    other = cache.open(run_of(900, 24))
    other.reserve(24)
    seq = cache.open([*A, *B[:3], *C])
    before = dump(cache, without_failed_reserves=True)
    with pytest.raises(OutOfPages):
        seq.reserve(8)
    assert seq.partial is not None
    assert dump(cache, without_failed_reserves=True) == before
    seq.abort()
    other.abort()


def test_an_offer_is_kept_where_others_lock_the_source_too(cache: PrefixCache) -> None:
    put(cache, A + B)
    holder = cache.open([*A, *B, 1])
    other = cache.open(run_of(900, 24))
    other.reserve(24)
    seq = cache.open([*A, *B[:3], 1])
    with pytest.raises(OutOfPages):
        seq.reserve(4)
    assert seq.partial is not None
    for each in (holder, other, seq):
        each.abort()


def test_taking_the_offer_again_after_a_preemption_is_not_counted(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = cache.open([*A, *B[:3], 1], resumed=True)
    seq.reserve(4)
    assert (seq.computed_len, cache.stats.copied_tokens) == (7, 0)
    seq.abort()


def test_copies_carry_the_content(cache: PrefixCache) -> None:
    engine = Engine(cache)
    engine.put(A + B)
    for tail in ([*B[:3], 1, 2], [*B[:1], 5], [*B[:2], 6, 7, 8, 9]):
        running = engine.begin(A + tail)
        engine.generate(running, 11, 12)
        engine.verify()
        engine.close(running)
        engine.verify()


def test_unread_sequences_get_no_offer(cache: PrefixCache) -> None:
    put(cache, A + B)
    seq = cache.open([*A, *B[:3], 1], read=False)
    assert seq.partial is None
    seq.abort()


def test_a_page_that_is_cached_only_at_a_root_is_offered_too(cache: PrefixCache) -> None:
    pages = put(cache, A)
    seq = cache.open([*A[:2], 9, 9])
    assert seq.partial == (pages[0], 2)
    compute(seq).close()


def test_no_offer_crosses_namespaces(cache: PrefixCache) -> None:
    put(cache, A, "one")
    seq = cache.open([*A[:2], 9, 9], "two")
    assert seq.partial is None
    seq.abort()


def test_the_source_is_found_without_scanning_all_children(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    common = radixcache.agreement.common_units
    monkeypatch.setattr(
        radixcache.agreement, "common_units", lambda *given: (compared.append(given), common(*given))[1]
    )
    cache = make_cache(num_pages=2000, page_size=4, partial_reuse=True)
    for number in range(1000):
        put(cache, [7, number, 7, 7])
    compared.clear()
    seq = begin(cache, [7, 500, 7, 9, 9])
    assert cache.stats.copied_tokens >= 3
    assert len(compared) <= 1
    seq.abort()
    check(cache)
