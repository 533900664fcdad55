from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from radixcache import CacheObserver, PrefixCache, RadixCacheError, Tokens, check
from radixcache.errors import EventsLost
from radixcache.events import Cleared, EventLog, Removed, Snapshot, Stored
from tests.steps import begin, make_cache, put, run_of

A, B, C, D = (run_of(100 * number, 2) for number in (1, 2, 3, 4))


class Diary:
    """Keeps what it is told, and that the change was complete by then."""

    def __init__(self, cache: PrefixCache) -> None:
        self.cache = cache
        self.told: list[tuple[Any, ...]] = []

    def published(
        self, namespace: Any, parent_page: int | None, new_pages: np.ndarray, tokens: Tokens, depth: int
    ) -> None:
        self.told.append(("published", namespace, parent_page, new_pages.tolist(), list(tokens), depth))
        assert set(new_pages.tolist()) <= {page for run in self.cache.snapshot().stored for page in run.pages}

    def evicted(
        self, namespace: Any, pages: np.ndarray, surviving_parent_page: int | None, depth: int
    ) -> None:
        self.told.append(("evicted", namespace, pages.tolist(), surviving_parent_page, depth))
        assert not set(pages.tolist()) & {page for run in self.cache.snapshot().stored for page in run.pages}

    def cleared(self, namespace: Any, *, everything: bool) -> None:
        self.told.append(("cleared", namespace, everything))
        assert not [run for run in self.cache.snapshot().stored if everything or run.namespace == namespace]


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=12, page_size=2, max_events=100)
    yield cache
    check(cache)


@pytest.fixture
def diary(cache: PrefixCache) -> Diary:
    observer: CacheObserver = Diary(cache)
    cache.subscribe(observer)
    return observer


# Observers


def test_new_pages_are_reported_as_one_run_behind_their_parent(cache: PrefixCache, diary: Diary) -> None:
    seq = begin(cache, [*A, *B, *C, 0], "n")
    table = seq.page_table.tolist()
    seq.close()
    put(cache, [*A, *D, 0], "n")
    assert diary.told[0] == ("published", "n", None, table[:3], A + B + C, 0)
    assert diary.told[1][:3] == ("published", "n", table[0])
    assert diary.told[1][4:] == (D, 1)
    assert len(diary.told) == 2


def test_chunks_are_reported_as_they_come(cache: PrefixCache, diary: Diary) -> None:
    seq = begin(cache, A)
    seq.publish()
    seq.append(B)
    seq.reserve(2)
    seq.advance(2)
    seq.close()
    page = diary.told[0][3][0]
    assert [told[2] for told in diary.told] == [None, page]
    assert [told[5] for told in diary.told] == [0, 1]


def test_duplicates_splits_merges_and_peeks_are_not_reported(cache: PrefixCache, diary: Diary) -> None:
    put(cache, A + B)
    del diary.told[:]
    put(cache, A + B)
    cache.open([*A, 0]).abort()
    cache.peek([*A, 0])
    cache.open([*C, 0]).abort()
    assert diary.told == []


def test_a_tail_that_goes_is_reported_with_what_survives_before_it(cache: PrefixCache, diary: Diary) -> None:
    pages = put(cache, A + B + C)
    cache.evict(2)
    cache.evict(2)
    assert diary.told[1:] == [
        ("evicted", None, pages[1:], pages[0], 1),
        ("evicted", None, pages[:1], None, 0),
    ]


def test_children_are_reported_before_parents(cache: PrefixCache, diary: Diary) -> None:
    one, two = put(cache, A + B), put(cache, A + C)
    cache.evict(3)
    assert diary.told[2:] == [("evicted", None, one[1:], one[0], 1), ("evicted", None, two, None, 0)]


def test_clearing_is_reported(cache: PrefixCache, diary: Diary) -> None:
    put(cache, A, "n")
    cache.retire("n")
    cache.retire("unknown")
    cache.reset()
    assert diary.told[1:] == [("cleared", "n", False), ("cleared", None, True)]


def test_reported_arrays_are_no_window_into_the_cache(cache: PrefixCache) -> None:
    class Vandal(Diary):
        def published(
            self, namespace: Any, parent_page: Any, new_pages: Any, tokens: Any, depth: int
        ) -> None:
            with pytest.raises(ValueError, match="read-only"):
                new_pages[0] = 99

        def evicted(self, namespace: Any, pages: Any, surviving_parent_page: Any, depth: int) -> None:
            with pytest.raises(ValueError, match="read-only"):
                pages[0] = 99

    cache.subscribe(Vandal(cache))
    put(cache, A)
    cache.evict(1)


# The log


def test_there_is_no_log_unless_asked_for() -> None:
    assert make_cache().events is None


def test_events_are_numbered_from_zero(cache: PrefixCache) -> None:
    pages = put(cache, A + B)
    cache.evict(1)
    cache.retire(None)
    log = cache.events
    assert log.since(0, 0) == (
        Stored(0, 0, None, None, tuple(pages), Tokens(A + B)),
        Removed(0, 1, None, (pages[1],)),
        Cleared(0, 2, None, everything=False),
    )
    assert (log.epoch, log.next_sequence) == (0, 3)


def test_a_reset_begins_an_epoch_whose_first_event_says_so(cache: PrefixCache) -> None:
    put(cache, A)
    cache.reset()
    log = cache.events
    assert (log.epoch, log.next_sequence) == (1, 1)
    assert log.since(1, 0) == (Cleared(1, 0, None, everything=True),)
    with pytest.raises(EventsLost, match="of epoch 0 are not here"):
        log.since(0, 0)


def test_a_consumer_that_is_up_to_date_gets_nothing(cache: PrefixCache) -> None:
    assert cache.events.since(0, 0) == ()
    put(cache, A)
    assert cache.events.since(0, 1) == ()


def test_the_buffer_is_bounded() -> None:
    log = EventLog(max_events=3)
    for _ in range(5):
        log.cleared("n", everything=False)
    assert [event.sequence for event in log.since(0, 2)] == [2, 3, 4]
    assert [event.sequence for event in log.since(0, 4)] == [4]
    with pytest.raises(
        EventsLost, match="events from number 1 of epoch 0 are not here; the buffer holds 2 to 4"
    ):
        log.since(0, 1)


@pytest.mark.parametrize(("epoch", "sequence"), [(0, 6), (1, 0), (-1, 0), (0, -1)])
def test_events_that_were_never_sent_are_lost(epoch: int, sequence: int) -> None:
    log = EventLog(max_events=10)
    for _ in range(5):
        log.cleared("n", everything=False)
    with pytest.raises(EventsLost):
        log.since(epoch, sequence)


def test_the_error_is_ours_and_a_lookup_error() -> None:
    assert issubclass(EventsLost, RadixCacheError)
    assert issubclass(EventsLost, LookupError)


# Snapshots


def test_a_snapshot_lists_parents_before_children_with_the_number_of_the_next_event(
    cache: PrefixCache,
) -> None:
    one, two = put(cache, A + B, "n"), put(cache, A + C, "n")
    snapshot = cache.snapshot()
    assert (snapshot.epoch, snapshot.sequence) == (0, 2)
    assert snapshot.stored[0] == Stored(0, 2, "n", None, (one[0],), Tokens(A))
    assert {(run.parent_page, run.pages, tuple(run.tokens)) for run in snapshot.stored[1:]} == {
        (one[0], (one[1],), tuple(B)),
        (one[0], (two[1],), tuple(C)),
    }


def test_a_snapshot_of_a_trimmed_leaf_shows_what_is_left(cache: PrefixCache) -> None:
    pages = put(cache, A + B + C)
    cache.evict(1)
    assert cache.snapshot().stored == (Stored(0, 2, None, None, tuple(pages[:2]), Tokens(A + B)),)


def test_a_snapshot_without_a_log_is_numbered_zero() -> None:
    cache = make_cache()
    assert cache.snapshot() == Snapshot(0, 0, ())


def test_a_snapshot_leaves_out_what_is_retired(cache: PrefixCache) -> None:
    seq = begin(cache, [*A, 0], "n")
    seq.publish()
    cache.retire("n")
    assert cache.snapshot().stored == ()
    seq.abort()
