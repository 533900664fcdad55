"""The event stream and an index elsewhere: lost, doubled and late messages are noticed or harmless."""

import random
from collections.abc import Iterable, Iterator

import pytest

from radixcache import PrefixCache, Tokens
from radixcache.errors import EventsLost
from radixcache.events import Cleared, Event, Removed, Stored
from radixcache.page_index import PageIndex
from tests.steps import begin, make_cache, matched, put, run_of

B1, B2, B3, B4 = (run_of(100 * number, 2) for number in (1, 2, 3, 4))


def cached(cache: PrefixCache) -> set[int]:
    return {page for run in cache.snapshot().stored for page in run.pages}


def follow(cache: PrefixCache, index: PageIndex) -> None:
    """A consumer as it should be: asks for what it misses, takes a snapshot where that is gone."""
    assert cache.events is not None
    try:
        events = cache.events.since(index._epoch, index._next_sequence)
    except EventsLost:
        index.load(cache.snapshot())
        return
    if not all(map(index.apply, events)):
        index.load(cache.snapshot())


def life(seed: int, *, with_resets: bool = True) -> Iterator[PrefixCache]:
    rng = random.Random(seed)
    cache = make_cache(num_pages=8, page_size=1, max_events=6)
    while True:
        kind = rng.random()
        if kind < 0.7:
            put(cache, [rng.randrange(3) for _ in range(rng.randrange(1, 5))], rng.choice([None, "n"]))
        elif kind < 0.9:
            cache.evict(rng.randrange(1, 4))
        elif kind < 0.96:
            cache.retire(rng.choice([None, "n"]))
        elif with_resets:
            cache.reset()
        yield cache


# H01


def test_h01_an_index_that_restarted_asks_for_a_snapshot_and_then_has_everything() -> None:
    cache = make_cache(num_pages=8, page_size=2, max_events=100)
    index = PageIndex(page_size=2)
    put(cache, B1)
    put(cache, B1 + B2)
    follow(cache, index)
    index = PageIndex(page_size=2)
    put(cache, B1 + B3)
    put(cache, [*B1, *B3, *B4])
    late = cache.events.since(0, 2)
    assert not index.apply(late[0])
    assert index.needs_snapshot
    assert index.pages == set(), "children of unknown parents are not guessed"
    index.load(cache.snapshot())
    assert index.pages == cached(cache)
    assert index.matched_len([*B1, *B3, *B4, 1]) == 6
    assert index.matched_len([*B1, *B2, 1]) == 4


# H02


@pytest.mark.parametrize("seed", range(20))
def test_h02_dropped_doubled_delayed_and_swapped_messages_end_in_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    index = PageIndex(page_size=1)
    under_way: list[Event] = []
    told: set[tuple[int, int]] = set()
    for _, cache in zip(range(80), life(seed), strict=False):
        under_way += unsent(cache, told)
        rng.shuffle(under_way)
        while under_way and rng.random() < 0.7:
            event = under_way.pop()
            if rng.random() < 0.1:
                continue
            for _ in range(rng.choice((1, 1, 2))):
                index.apply(event)
        if rng.random() < 0.3:
            follow(cache, index)
            assert index.pages == cached(cache)
            assert not index.needs_snapshot
    follow(cache, index)
    assert index.pages == cached(cache)
    for first in range(3):
        for namespace in (None, "n"):
            assert index.matched_len([first, 1, 9], namespace) == matched(cache, [first, 1], namespace)


def unsent(cache: PrefixCache, told: set[tuple[int, int]]) -> Iterable[Event]:
    assert cache.events is not None
    log = cache.events
    first = max(0, log.next_sequence - 6)
    events = [event for event in log.since(log.epoch, first) if (event.epoch, event.sequence) not in told]
    told |= {(event.epoch, event.sequence) for event in events}
    return events


@pytest.mark.parametrize("lost", range(6))
def test_h02_any_single_loss_is_noticed_at_the_next_message(lost: int) -> None:
    cache = make_cache(num_pages=8, page_size=2, max_events=100)
    index = PageIndex(page_size=2)
    for number in range(7):
        put(cache, run_of(10 * number, 2))
    events = cache.events.since(0, 0)
    answers = [index.apply(event) for event in events if event.sequence != lost]
    assert answers == [True] * lost + [False] * (6 - lost)
    assert index.needs_snapshot


def test_h02_a_replay_asked_for_by_the_number_of_the_gap_repairs_it() -> None:
    cache = make_cache(num_pages=8, page_size=2, max_events=100)
    index = PageIndex(page_size=2)
    for number in range(5):
        put(cache, run_of(10 * number, 2))
        if number != 2:
            continue
        follow(cache, index)
    follow(cache, index)
    assert index.pages == cached(cache)


def test_h02_what_left_the_buffer_is_said_to_be_lost() -> None:
    cache = make_cache(num_pages=8, page_size=2, max_events=2)
    for number in range(5):
        put(cache, run_of(10 * number, 2))
    with pytest.raises(EventsLost, match="buffer holds 3 to 4 of epoch 0"):
        cache.events.since(0, 2)
    index = PageIndex(page_size=2)
    follow(cache, index)
    assert index.pages == cached(cache)


# H03


def test_h03_clearing_one_worker_empties_what_is_known_of_it_and_of_no_other(rarely_checked: None) -> None:
    workers = [make_cache(num_pages=100, page_size=2, max_events=1000) for _ in range(3)]
    indices = [PageIndex(page_size=2) for _ in workers]
    for worker, index in zip(workers, indices, strict=True):
        for number in range(100):
            put(worker, run_of(10 * number, 2))
        follow(worker, index)
        assert len(index.pages) == 100
    workers[1].reset()
    for worker, index in zip(workers, indices, strict=True):
        follow(worker, index)
    assert [len(index.pages) for index in indices] == [100, 0, 100]
    assert [index.matched_len([0, 1, 5]) for index in indices] == [2, 0, 2]


def test_h03_clearing_one_namespace_leaves_the_others() -> None:
    cache = make_cache(num_pages=20, page_size=2, max_events=1000)
    index = PageIndex(page_size=2)
    for namespace in (None, "a", b"a", ("a",)):
        put(cache, B1 + B2, namespace)
    cache.retire("a")
    follow(cache, index)
    assert [index.matched_len([*B1, *B2, 1], each) for each in (None, "a", b"a", ("a",))] == [4, 0, 4, 4]
    assert index.pages == cached(cache)


def test_h03_pages_that_live_on_in_a_retired_namespace_are_known_to_nobody() -> None:
    cache = make_cache(num_pages=20, page_size=2, max_events=1000)
    index = PageIndex(page_size=2)
    seq = begin(cache, [*B1, 1], "n")
    seq.publish()
    cache.retire("n")
    follow(cache, index)
    assert index.pages == set()
    seq.close()
    put(cache, B2, "n")
    follow(cache, index)
    assert index.pages == cached(cache)


# H06


@pytest.mark.parametrize("seed", range(20))
def test_h06_the_number_of_known_pages_is_that_of_the_set(seed: int) -> None:
    """Random stores, removes of the known and the unknown, doubles and clearings, against a set."""
    rng = random.Random(seed)
    index = PageIndex(page_size=1)
    known: dict[int, str | None] = {}
    for sequence in range(200):
        kind, namespace = rng.random(), rng.choice([None, "n"])
        event: Event
        if kind < 0.5:
            page = rng.choice([page for page in range(40) if page not in known] or [40])
            event = Stored(0, sequence, namespace, None, (page,), Tokens([page]))
            known[page] = namespace
        elif kind < 0.9:
            pages = tuple(rng.sample(range(60), 5))
            event = Removed(0, sequence, namespace, pages)
            for page in pages:
                known.pop(page, None)
        else:
            event = Cleared(0, sequence, namespace, everything=False)
            known = {page: where for page, where in known.items() if where != namespace}
        for _ in range(rng.choice((1, 1, 1, 2))):
            assert index.apply(event)
        assert index.pages == set(known)
        assert len(index._page_behind) == len(known)


def test_h06_one_absent_page_does_not_stop_the_rest_of_a_removal() -> None:
    index = PageIndex(page_size=1)
    index.apply(Stored(0, 0, None, None, (1, 2, 3), Tokens([1, 2, 3])))
    index.apply(Removed(0, 1, None, (3, 99, 2)))
    assert index.pages == {1}


def test_h06_whoever_registers_again_starts_at_zero() -> None:
    cache = make_cache(num_pages=8, page_size=2, max_events=100)
    index = PageIndex(page_size=2)
    for number in range(4):
        put(cache, run_of(10 * number, 2))
    follow(cache, index)
    cache.reset()
    put(cache, B1)
    events = cache.events.since(1, 0)
    assert [event.sequence for event in events] == [0, 1]
    assert all(index.apply(event) for event in events)
    assert index.pages == cached(cache)
