import pytest

from tests.oracles.model import Copy, Counts, MisuseOracle, Namespace, OutOfPagesOracle, Prefix
from tests.oracles.page_cache import PageCacheOracle
from tests.oracles.page_lru import PageLruOracle


def compute(oracle: PageCacheOracle, handle: int) -> None:
    seq = oracle.sequence(handle)
    oracle.reserve(handle, seq.num_tokens - seq.computed_len)
    oracle.take_copies(handle)
    oracle.advance(handle, seq.num_tokens - seq.computed_len)


def serve(oracle: PageCacheOracle, prompt: list[int], namespace: Namespace = None) -> list[Prefix]:
    """Compute and close; return what was evicted on the way."""
    handle = oracle.open(prompt, namespace=namespace)
    compute_victims = []
    seq = oracle.sequence(handle)
    oracle.reserve(handle, seq.num_tokens - seq.computed_len)
    compute_victims += oracle.victims
    oracle.take_copies(handle)
    oracle.advance(handle, seq.num_tokens - seq.computed_len)
    oracle.close(handle)
    return compute_victims


def states(oracle: PageCacheOracle) -> tuple[int, int, int, int]:
    counts = oracle.counts
    return counts.free, counts.private, counts.evictable, counts.locked


def page(*tokens: int) -> Prefix:
    return (None, tokens)


def test_pages_change_state_along_the_life_of_a_request() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 2, 3, 4, 5])
    assert states(oracle) == (8, 0, 0, 0)
    oracle.reserve(handle, 5)
    assert states(oracle) == (5, 3, 0, 0)
    oracle.advance(handle, 5)
    oracle.publish(handle)
    assert states(oracle) == (5, 1, 0, 2)
    oracle.close(handle)
    assert oracle.counts == Counts(free=6, private=0, evictable=2, locked=0, total=8)


def test_a_match_never_covers_the_last_token() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 2, 3, 4])
    assert oracle.peek([1, 2, 3, 4]) == 2
    assert oracle.peek([1, 2, 3, 4, 5]) == 4
    assert oracle.peek([1, 2]) == 0


def test_namespaces_do_not_meet() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 2, 3], "a")
    assert oracle.peek([1, 2, 3], namespace="a") == 2
    assert oracle.peek([1, 2, 3], namespace=b"a") == 0
    assert oracle.peek([1, 2, 3]) == 0


def test_only_written_pages_are_published() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 2, 3, 4, 5])
    oracle.reserve(handle, 5)
    oracle.advance(handle, 3)
    oracle.publish(handle)
    assert set(oracle.cached) == {page(1, 2)}


def test_reserve_is_not_cumulative_and_gives_nothing_back() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 2, 3, 4, 5])
    oracle.reserve(handle, 5)
    oracle.reserve(handle, 5)
    oracle.reserve(handle, 1)
    assert states(oracle) == (5, 3, 0, 0)


def test_reserve_may_reach_past_the_known_tokens() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1])
    oracle.reserve(handle, 7)
    assert oracle.counts.private == 4
    oracle.append(handle, [2, 3, 4, 5, 6, 7])
    oracle.advance(handle, 7)


def test_the_page_touched_longest_ago_goes_first_and_the_deepest_of_its_path() -> None:
    oracle = PageLruOracle(6, 2)
    serve(oracle, [1, 1, 2, 2])
    serve(oracle, [3, 3, 4, 4])
    serve(oracle, [5, 5])
    assert oracle.evict(3) == 3
    assert oracle.victims == [page(1, 1, 2, 2), page(1, 1), page(3, 3, 4, 4)]


def test_a_partial_match_refreshes_the_matched_part_only() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1, 2, 2])
    serve(oracle, [3, 3, 4, 4])
    serve(oracle, [1, 1, 7])
    oracle.evict(3)
    assert oracle.victims == [page(1, 1, 2, 2), page(3, 3, 4, 4), page(3, 3)]


def test_open_does_not_touch_before_its_first_reserve() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1, 9])
    serve(oracle, [2, 2, 9])
    oracle.abort(oracle.open([1, 1, 9]))
    oracle.evict(1)
    assert oracle.victims == [page(1, 1)]


def test_the_first_reserve_touches_and_later_ones_do_not() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1, 9])
    serve(oracle, [2, 2, 9])
    first = oracle.open([1, 1, 9])
    oracle.reserve(first, 1)
    second = oracle.open([2, 2, 9])
    oracle.reserve(second, 1)
    oracle.reserve(first, 3)
    oracle.abort(first)
    oracle.abort(second)
    oracle.evict(1)
    assert oracle.victims == [page(1, 1)]


def test_a_failed_reserve_touches_and_counts_and_evicts_nothing() -> None:
    oracle = PageLruOracle(4, 2)
    serve(oracle, [1, 1, 9])
    serve(oracle, [2, 2, 9])
    handle = oracle.open([1, 1, 9])
    with pytest.raises(OutOfPagesOracle) as caught:
        oracle.reserve(handle, 8)
    error = caught.value
    assert (error.needed, error.free, error.evictable, error.locked) == (4, 2, 1, 1)
    assert oracle.victims == []
    assert oracle.stats.lookups == 2
    oracle.abort(handle)
    oracle.evict(1)
    assert oracle.victims == [page(1, 1)]


def test_reserve_evicts_exactly_the_shortage() -> None:
    oracle = PageLruOracle(4, 2)
    serve(oracle, [1, 1, 2, 2, 3, 3])
    assert serve(oracle, [4, 4, 5]) == [page(1, 1, 2, 2, 3, 3)]
    assert oracle.peek([1, 1, 2, 2, 3, 3]) == 4


def test_a_locked_path_stays_and_its_unlocked_tail_goes() -> None:
    oracle = PageLruOracle(4, 2)
    serve(oracle, [1, 1, 2, 2, 3, 3, 4, 4])
    oracle.open([1, 1, 2, 2, 9])
    assert states(oracle) == (0, 0, 2, 2)
    assert oracle.evict(4) == 2
    assert set(oracle.cached) == {page(1, 1), page(1, 1, 2, 2)}


def test_publish_swaps_pages_that_somebody_else_published_first() -> None:
    oracle = PageLruOracle(8, 2)
    first, second = oracle.open([1, 1, 2, 2, 3]), oracle.open([1, 1, 2, 2, 4])
    compute(oracle, first)
    compute(oracle, second)
    assert states(oracle) == (2, 6, 0, 0)
    oracle.publish(first)
    oracle.publish(second)
    assert states(oracle) == (4, 2, 0, 2)
    assert oracle.sequence(first).pages[:2] == oracle.sequence(second).pages[:2]


def test_a_publish_that_adds_nothing_does_not_touch() -> None:
    oracle = PageLruOracle(8, 2)
    first, second = oracle.open([1, 1]), oracle.open([1, 1])
    compute(oracle, first)
    compute(oracle, second)
    oracle.close(first)
    serve(oracle, [2, 2])
    oracle.close(second)
    oracle.evict(1)
    assert oracle.victims == [page(1, 1)]


def test_a_publish_that_adds_a_page_touches_the_whole_path() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1])
    handle = oracle.open([1, 1, 2, 2])
    compute(oracle, handle)
    serve(oracle, [3, 3])
    oracle.close(handle)
    oracle.evict(3)
    assert oracle.victims == [page(3, 3), page(1, 1, 2, 2), page(1, 1)]


def test_abort_gives_back_what_is_not_published() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 1, 2, 2, 3, 3])
    oracle.reserve(handle, 6)
    oracle.advance(handle, 2)
    oracle.publish(handle)
    oracle.advance(handle, 4)
    oracle.abort(handle)
    assert states(oracle) == (7, 0, 1, 0)


def test_read_false_matches_nothing_and_publishes_onto_what_is_there() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1, 9])
    handle = oracle.open([1, 1, 9], read=False)
    assert oracle.sequence(handle).matched_len == 0
    compute(oracle, handle)
    assert states(oracle) == (5, 2, 1, 0)
    oracle.publish(handle)
    assert states(oracle) == (6, 1, 0, 1)
    assert oracle.stats.lookups == 1


def test_write_false_publishes_nothing() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 1, 2], write=False)
    compute(oracle, handle)
    oracle.publish(handle)
    oracle.close(handle)
    assert oracle.counts.free == 8


def test_resumed_sequences_have_counters_of_their_own() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1, 2])
    oracle.reserve(oracle.open([1, 1, 2], resumed=True), 1)
    stats = oracle.stats
    assert (stats.lookups, stats.prompt_tokens, stats.matched_tokens) == (1, 3, 0)
    assert (
        stats.resumed_lookups,
        stats.resumed_prompt_tokens,
        stats.resumed_matched_tokens,
    ) == (1, 3, 2)


@pytest.mark.parametrize("extend_len", [4, -1])
def test_advance_past_what_is_known_or_backwards_is_refused(extend_len: int) -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 1, 2])
    oracle.reserve(handle, 8)
    with pytest.raises(MisuseOracle):
        oracle.advance(handle, extend_len)
    assert oracle.sequence(handle).computed_len == 0


def test_advance_past_what_is_reserved_is_refused() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 1, 2])
    oracle.reserve(handle, 1)
    with pytest.raises(MisuseOracle):
        oracle.advance(handle, 3)


def test_verbs_after_the_end_are_refused() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1])
    oracle.abort(handle)
    with pytest.raises(MisuseOracle):
        oracle.close(handle)


def test_reset_is_refused_while_sequences_live() -> None:
    oracle = PageLruOracle(8, 2)
    serve(oracle, [1, 1])
    handle = oracle.open([1])
    with pytest.raises(MisuseOracle):
        oracle.reset()
    oracle.abort(handle)
    oracle.reset()
    assert oracle.counts.free == 8


def test_copies_are_reported_in_position_order_and_once() -> None:
    oracle = PageLruOracle(8, 2)
    handle = oracle.open([1, 1, 2, 2, 3], write=False)
    compute(oracle, handle)
    child = oracle.fork(handle)
    sources, targets = oracle.sequence(handle).pages, oracle.sequence(child).pages
    assert oracle.take_copies(child) == [
        Copy(source=source, target=target, num_tokens=num_tokens)
        for source, target, num_tokens in zip(sources, targets, (2, 2, 1), strict=True)
    ]
    assert oracle.take_copies(child) == []
