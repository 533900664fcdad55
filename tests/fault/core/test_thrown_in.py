"""Faults thrown in from outside: an observer, the memory, a policy that fails midway."""

import pytest

from radixcache import CacheConfig, PrefixCache, check
from radixcache.allocator import PageAllocator
from tests.steps import begin, compute, make_cache, matched, put, run_of


def is_idle(cache: PrefixCache) -> bool:
    counts = cache.pages
    return counts.private == counts.locked == 0 and counts.free + counts.evictable == counts.total


class Grumpy:
    """An observer that fails at its n-th call."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def published(self, *told: object, **more: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise ZeroDivisionError("observer")

    evicted = cleared = published


@pytest.mark.parametrize("calls", range(1, 8))
def test_an_observer_that_raises_leaves_a_sound_cache(calls: int) -> None:
    cache = make_cache(num_pages=4, page_size=1)
    cache.subscribe(Grumpy(calls))
    num_failed = 0
    for prompt in ([1, 2, 3], [1, 2, 4], [5, 6], [7, 8, 9, 10], [1, 2]):
        seq = cache.open(prompt)
        try:
            compute(seq).close()
        except ZeroDivisionError:
            num_failed += 1
            check(cache)
            seq.abort()
    assert num_failed == (calls <= 7)
    assert is_idle(cache)
    try:
        cache.reset()
    except ZeroDivisionError:
        num_failed += 1
    assert cache.pages.free == 4


class Told:
    """An observer that keeps what it is told, and then raises."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.events: list[str] = []

    def _tell(self, event: str) -> None:
        self.events.append(event)
        if self.errors:
            raise self.errors.pop()

    def published(self, *told: object) -> None:
        self._tell("published")

    def evicted(self, *told: object) -> None:
        self._tell("evicted")

    def cleared(self, *told: object, everything: bool) -> None:
        self._tell("cleared")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("event", ["published", "evicted", "cleared"])
def test_all_observers_are_told_although_one_raises_and_the_first_error_goes_on(
    event: str, error: type[BaseException]
) -> None:
    cache = make_cache(num_pages=8, page_size=1)
    put(cache, [1, 2, 3])
    put(cache, [1, 4, 5])
    first, second = error("first"), ValueError("second")
    told = [Told(), Told(first), Told(second), Told()]
    for each in told:
        cache.subscribe(each)

    def publish() -> None:
        with begin(cache, [6]):
            pass

    verbs = {
        "published": publish,
        "evicted": lambda: cache.evict(5),
        "cleared": cache.reset,
    }
    with pytest.raises(error) as caught:
        verbs[event]()
    assert caught.value is first
    assert [each.events for each in told] == [[event] * (2 if event == "evicted" else 1)] * 4
    cache.evict(8)
    cache.reset()
    assert cache.pages.free == 8


@pytest.mark.parametrize("verb", ["publish", "close", "fork"])
def test_after_an_observer_raised_in_a_verb_the_sequence_can_be_aborted(verb: str) -> None:
    cache = make_cache(num_pages=4, page_size=2)
    cache.subscribe(Grumpy(1))
    seq = begin(cache, [1, 2, 3])
    with pytest.raises(ZeroDivisionError):
        getattr(seq, verb)()
    seq.abort()
    assert is_idle(cache)


def test_a_fork_whose_eviction_an_observer_breaks_off_leaves_nothing_locked() -> None:
    cache = make_cache(num_pages=4, page_size=2)
    put(cache, [9, 9, 9, 9])
    seq = begin(cache, [1, 2, 3])
    seq.publish()
    cache.subscribe(Grumpy(1))
    with pytest.raises(ZeroDivisionError):
        seq.fork()
    check(cache)
    seq.abort()
    assert is_idle(cache)


def test_a_with_block_whose_close_raises_gives_everything_back() -> None:
    cache = make_cache(num_pages=4, page_size=2)
    cache.subscribe(Grumpy(1))
    with pytest.raises(ZeroDivisionError), begin(cache, [1, 2, 3]):
        pass
    assert cache.stats.live_sequences == 0
    assert is_idle(cache)


def test_memory_running_out_while_pages_are_handed_out_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make_cache(num_pages=4, page_size=2)
    put(cache, [1, 2, 3, 4])
    seq = cache.open(run_of(50, 8))

    def fail(allocator: PageAllocator, num_pages: int) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(PageAllocator, "alloc", fail)
        with pytest.raises(MemoryError):
            seq.reserve(8)
    assert (seq.state, cache.pages.private) == ("open", 0)
    seq.reserve(8)
    seq.abort()
    assert is_idle(cache)


def test_a_policy_of_ones_own_that_raises_is_made_before_anything_is_dropped() -> None:
    made = []

    def once(num_pages: int) -> object:
        if made:
            raise ZeroDivisionError
        made.append(num_pages)
        return CacheConfig(num_pages=1).make_policy()

    cache = make_cache(num_pages=4, page_size=2, eviction=once)
    put(cache, [1, 2])
    with pytest.raises(ZeroDivisionError):
        cache.reset()
    assert matched(cache, [1, 2]) == 2
