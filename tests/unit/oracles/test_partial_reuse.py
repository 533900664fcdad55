import pytest

from tests.oracles.model import Copy, MisuseOracle, Offer, OutOfPagesOracle, Prefix
from tests.oracles.page_lru import PageLruOracle


def cache(num_pages: int, page_size: int, *prompts: list[int]) -> PageLruOracle:
    oracle = PageLruOracle(num_pages, page_size, partial_reuse=True)
    for prompt in prompts:
        handle = oracle.open(prompt, read=False)
        oracle.reserve(handle, len(prompt))
        oracle.advance(handle, len(prompt))
        oracle.close(handle)
    return oracle


def states(oracle: PageLruOracle) -> tuple[int, int, int, int]:
    counts = oracle.counts
    return counts.free, counts.private, counts.evictable, counts.locked


def page(*tokens: int) -> Prefix:
    return (None, tokens)


def test_the_longest_agreement_behind_the_match_is_offered_and_locked() -> None:
    oracle = cache(8, 4, [1, 1, 1, 1, 2, 2, 3, 3], [1, 1, 1, 1, 2, 2, 2, 4])
    seq = oracle.sequence(oracle.open([1, 1, 1, 1, 2, 2, 2, 5]))
    assert seq.matched_len == seq.computed_len == 4
    assert seq.offer == Offer(source=page(1, 1, 1, 1, 2, 2, 2, 4), num_tokens=3)
    assert states(oracle) == (5, 0, 1, 2)


def test_the_offer_ends_one_token_before_the_end_of_the_prompt() -> None:
    oracle = cache(8, 4, [1, 2, 3, 4])
    assert oracle.offers([1, 2, 3, 4], 0) == [Offer(source=page(1, 2, 3, 4), num_tokens=3)]
    assert oracle.offers([1], 0) == []


def test_there_is_no_offer_without_a_token_in_common_or_across_namespaces() -> None:
    oracle = cache(8, 4, [1, 2, 3, 4])
    assert oracle.offers([2, 2, 3, 4], 0) == []
    assert oracle.offers([1, 2, 3, 4], 0, namespace="a") == []


def test_reserve_takes_the_offer_and_counts_from_before_it() -> None:
    oracle = cache(8, 4, [1, 2, 3, 4])
    handle = oracle.open([1, 2, 3, 9, 9])
    oracle.reserve(handle, 4)
    seq = oracle.sequence(handle)
    assert (seq.matched_len, seq.computed_len, len(seq.pages)) == (0, 3, 1)
    [order] = oracle.take_copies(handle)
    source = oracle.cached[page(1, 2, 3, 4)].serial
    assert order == Copy(source=source, target=seq.pages[0], num_tokens=3)
    assert states(oracle) == (6, 1, 0, 1)


@pytest.mark.parametrize("ending", ["advance", "close", "abort"])
def test_the_source_is_locked_until_the_next_step(ending: str) -> None:
    oracle = cache(8, 4, [1, 2, 3, 4])
    handle = oracle.open([1, 2, 9])
    oracle.reserve(handle, 3)
    oracle.take_copies(handle)
    assert oracle.counts.locked == 1
    if ending == "advance":
        oracle.advance(handle, 1)
    else:
        oracle.close(handle) if ending == "close" else oracle.abort(handle)
    assert oracle.counts.evictable == 1


def test_advance_is_refused_while_the_copy_is_not_taken() -> None:
    oracle = cache(8, 4, [1, 2, 3, 4])
    handle = oracle.open([1, 2, 9])
    oracle.reserve(handle, 3)
    with pytest.raises(MisuseOracle):
        oracle.advance(handle, 1)


def test_reserve_drops_the_offer_when_only_its_own_lock_stands_in_the_way() -> None:
    oracle = cache(1, 4, [1, 2, 3, 4])
    handle = oracle.open([1, 2, 9])
    assert states(oracle) == (0, 0, 0, 1)
    oracle.reserve(handle, 3)
    assert oracle.victims == [page(1, 2, 3, 4)]
    assert oracle.sequence(handle).computed_len == 0
    assert oracle.take_copies(handle) == []


def test_reserve_keeps_the_offer_when_dropping_it_would_not_help() -> None:
    oracle = cache(1, 4, [1, 2, 3, 4])
    handle = oracle.open([1, 2, 9, 9, 9])
    with pytest.raises(OutOfPagesOracle) as caught:
        oracle.reserve(handle, 5)
    assert (caught.value.needed, caught.value.evictable, caught.value.locked) == (2, 0, 1)
    assert oracle.sequence(handle).offer is not None


def test_the_offer_is_not_dropped_for_a_page_that_another_sequence_locks() -> None:
    oracle = cache(1, 4, [1, 2, 3, 4])
    oracle.open([1, 2, 3, 4, 5])
    handle = oracle.open([1, 2, 9])
    with pytest.raises(OutOfPagesOracle):
        oracle.reserve(handle, 3)


def test_an_offer_touches_the_matched_part_only() -> None:
    oracle = cache(8, 4, [1, 2, 3, 4], [5, 5, 5, 5])
    handle = oracle.open([1, 2, 9])
    oracle.reserve(handle, 3)
    oracle.abort(handle)
    oracle.evict(1)
    assert oracle.victims == [page(1, 2, 3, 4)]


def test_the_product_decides_between_equal_agreements_and_nothing_else() -> None:
    oracle = cache(8, 4, [1, 2, 3, 3], [1, 2, 4, 4], [1, 5, 5, 5])
    first, second = page(1, 2, 3, 3), page(1, 2, 4, 4)
    assert [offer.source for offer in oracle.offers([1, 2, 9], 0)] == [first, second]
    chosen = oracle.sequence(oracle.open([1, 2, 9], source=second)).offer
    assert chosen == Offer(source=second, num_tokens=2)
    with pytest.raises(MisuseOracle):
        oracle.open([1, 2, 9], source=page(1, 5, 5, 5))
