import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import PrefixCache, Tokens
from radixcache.errors import InvalidArgument, InvalidTokens
from radixcache.events import Cleared, Event, Removed, Stored
from radixcache.page_index import PageIndex
from tests.steps import make_cache, matched, put, run_of

A, B, C = (run_of(100 * number, 2) for number in (1, 2, 3))


@pytest.fixture
def cache() -> PrefixCache:
    return make_cache(num_pages=12, page_size=2, max_events=1000)


@pytest.fixture
def index() -> PageIndex:
    return PageIndex(page_size=2)


def cached(cache: PrefixCache) -> set[int]:
    return {page for run in cache.snapshot().stored for page in run.pages}


def replay(cache: PrefixCache, index: PageIndex) -> list[bool]:
    assert cache.events is not None
    return [index.apply(event) for event in cache.events.since(cache.events.epoch, 0)]


def live(seed: int) -> Iterator[PrefixCache]:
    """A small cache after each of some random changes, resets among them."""
    rng = random.Random(seed)
    cache = make_cache(num_pages=6, page_size=1, max_events=10_000)
    while True:
        kind = rng.random()
        if kind < 0.7:
            put(cache, [rng.randrange(3) for _ in range(rng.randrange(1, 5))], rng.choice([None, "n"]))
        elif kind < 0.9:
            cache.evict(rng.randrange(1, 4))
        elif kind < 0.97:
            cache.retire(rng.choice([None, "n"]))
        else:
            cache.reset()
        yield cache


def test_a_page_holds_at_least_one_token() -> None:
    with pytest.raises(InvalidArgument, match="page_size is at least 1, got 0"):
        PageIndex(page_size=0)


def test_an_empty_index_matches_nothing(index: PageIndex) -> None:
    assert (index.pages, index.matched_len(A), index.needs_snapshot) == (frozenset(), 0, False)


def test_bad_prompts_are_refused(index: PageIndex) -> None:
    with pytest.raises(InvalidTokens):
        index.matched_len([-1])


def test_it_matches_as_the_cache_does(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A + B)
    put(cache, A + C, "n")
    assert all(replay(cache, index))
    for prompt in (A, A + B, [*A, *B, 0], [*A, *C, 0], [*B, 0]):
        for namespace in (None, "n", "m"):
            assert index.matched_len(prompt, namespace) == cache.peek(prompt, namespace).matched_len


def test_doubled_and_late_events_are_harmless(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A)
    cache.evict(1)
    put(cache, B)
    events = cache.events.since(0, 0)
    for event in events:
        assert index.apply(event)
        assert index.apply(event)
    assert all(map(index.apply, events))
    assert index.pages == cached(cache)


def test_after_a_gap_nothing_is_applied_until_a_snapshot(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A)
    put(cache, B)
    put(cache, C)
    first, _, third = cache.events.since(0, 0)
    assert index.apply(first)
    assert not index.apply(third)
    assert index.needs_snapshot
    assert index.pages == set(first.pages)
    assert not index.apply(first)
    assert not index.apply(third)
    index.load(cache.snapshot())
    assert not index.needs_snapshot
    assert index.pages == cached(cache)


def test_events_before_the_snapshot_are_ignored_and_those_after_it_go_on(
    cache: PrefixCache, index: PageIndex
) -> None:
    put(cache, A)
    put(cache, B)
    index.load(cache.snapshot())
    cache.evict(1)
    assert all(replay(cache, index))
    assert index.pages == cached(cache)


def test_a_new_epoch_starts_from_nothing(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A)
    replay(cache, index)
    cache.reset()
    put(cache, B)
    assert all(replay(cache, index))
    assert index.pages == cached(cache)
    assert (index.matched_len([*A, 0]), index.matched_len([*B, 0])) == (0, 2)


def test_a_new_epoch_repairs_a_gap(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A)
    put(cache, B)
    assert not index.apply(cache.events.since(0, 1)[0])
    cache.reset()
    assert all(replay(cache, index))
    assert not index.needs_snapshot


def test_a_new_epoch_whose_beginning_was_lost_is_a_gap(cache: PrefixCache, index: PageIndex) -> None:
    cache.reset()
    put(cache, A)
    assert not index.apply(cache.events.since(1, 1)[0])
    assert index.needs_snapshot


def test_late_events_of_an_earlier_epoch_are_ignored(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A)
    late = cache.events.since(0, 0)
    cache.reset()
    put(cache, B)
    replay(cache, index)
    assert all(map(index.apply, late))
    assert index.pages == cached(cache)


def test_a_cleared_namespace_leaves_the_others(cache: PrefixCache, index: PageIndex) -> None:
    put(cache, A, "n")
    put(cache, A, b"n")
    cache.retire("n")
    replay(cache, index)
    assert (index.matched_len([*A, 0], "n"), index.matched_len([*A, 0], b"n")) == (0, 2)
    assert index.pages == cached(cache)


def test_removing_an_unknown_page_stops_nothing(index: PageIndex) -> None:
    assert index.apply(Stored(0, 0, None, None, (1, 2), Tokens(A + B)))
    assert index.apply(Removed(0, 1, None, (9, 2, 9)))
    assert index.pages == {1}
    assert index.apply(Cleared(0, 2, "unknown", everything=False))
    assert index.pages == {1}


@pytest.mark.parametrize("seed", range(20))
def test_the_whole_stream_gives_the_cached_pages_at_every_moment(seed: int) -> None:
    index = PageIndex(page_size=1)
    rng = random.Random(seed)
    for _, cache in zip(range(60), live(seed), strict=False):
        replay(cache, index)
        assert index.pages == cached(cache)
        assert not index.needs_snapshot
        prompt = [rng.randrange(3) for _ in range(4)]
        assert index.matched_len([*prompt, 9], "n") == matched(cache, prompt, "n")


@given(st.integers(0, 1000), st.data())
def test_lost_doubled_and_reordered_events_end_equal_to_the_cache(seed: int, data: st.DataObject) -> None:
    index = PageIndex(page_size=1)
    sent: list[Event] = []
    for _, cache in zip(range(15), live(seed), strict=False):
        assert cache.events is not None
        known = {(event.epoch, event.sequence) for event in sent}
        events = cache.events.since(cache.events.epoch, 0)
        sent += [event for event in events if (event.epoch, event.sequence) not in known]
    fates = data.draw(
        st.lists(
            st.sampled_from(["pass", "pass", "pass", "lost", "twice"]), min_size=len(sent), max_size=len(sent)
        )
    )
    arrived = [
        event
        for event, fate in zip(sent, fates, strict=True)
        for _ in range(("lost", "pass", "twice").index(fate))
    ]
    if arrived and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(arrived) - 1))
        arrived.append(arrived.pop(place))
    for event in arrived:
        if not index.apply(event):
            assert index.needs_snapshot
    last = sent[-1]
    is_behind = (index._epoch, index._next_sequence) != (last.epoch, last.sequence + 1)
    if index.needs_snapshot or is_behind:
        index.load(cache.snapshot())
    assert index.pages == cached(cache)
