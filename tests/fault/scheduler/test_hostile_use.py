"""What hostile use found: nothing leaks, nobody is stuck, and bad requests are refused before they are in."""

import pytest

from radixcache import CacheConfig, PrefixCache, RadixCacheError, check
from radixcache.errors import InvalidConfig
from scheduler import PoolOutgrown, Request, RequestState, Scheduler, SchedulerConfig


class Raises:
    def published(self, *_, **__):
        pass

    def evicted(self, *_, **__):
        raise ValueError("boom")

    def cleared(self, *_, **__):
        pass


def filled(**settings) -> PrefixCache:
    cache = PrefixCache(CacheConfig(num_pages=8, page_size=2, **settings))
    for prompt in ([9] * 8, [1, 2, 3, 4, 5, 6, 7, 8]):
        with cache.open(prompt) as seq:
            seq.reserve(8)
            seq.advance(8)
    return cache


def test_an_observer_that_raises_in_an_admission_leaves_no_sequence_behind():
    cache = filled()
    scheduler = Scheduler(cache, SchedulerConfig())
    cache.subscribe(Raises())
    scheduler.submit(Request.of("a", [1, 2, 3, 4, 50, 51, 52, 53], 1), 0)
    with pytest.raises(ValueError, match="boom"):
        scheduler.schedule(0)
    scheduler.abort("a", 0)
    check(cache)
    assert (cache.stats.live_sequences, cache.pages.locked) == (0, 0)


def test_the_event_log_is_told_everything_although_another_observer_raises():
    cache = filled(max_events=100)
    cache.subscribe(Raises())
    told = len(cache.events.since(0, 0))
    with pytest.raises(ValueError, match="boom"):
        cache.evict(8)
    removed = [page for event in cache.events.since(0, told) for page in event.pages]
    assert len(removed) == cache.stats.evicted_pages == 8


def test_a_request_that_outgrew_the_pool_while_it_was_preempted_fails_alone():
    cache = PrefixCache(CacheConfig(num_pages=4, page_size=2))
    scheduler = Scheduler(cache, SchedulerConfig())
    request = Request.of("a", [1, 2], None)
    scheduler.submit(request, 0)
    while request.num_known < 9:
        plan = scheduler.schedule(0)
        scheduler.commit(plan, {"a": [5]}, 0)
    scheduler.preempt("a")
    behind = Request.of("b", [7, 8], 1)
    scheduler.submit(behind, 0)
    plan = scheduler.schedule(0)
    assert plan.failed == (request,)
    assert isinstance(request.error, PoolOutgrown)
    scheduler.commit(plan, {"b": [1]}, 0)
    assert behind.state is RequestState.FINISHED


@pytest.mark.parametrize("bad", [{"priority": 10**400}, {"client": []}, {"prompt": [-1, 2]}, {"prompt": []}])
def test_a_bad_request_is_refused_when_it_is_made(bad):
    settings = {"request_id": "a", "prompt": [1, 2], "max_new_tokens": 1} | bad
    with pytest.raises(RadixCacheError):
        Request(**settings)


@pytest.mark.parametrize("settings", [{"page_size": 2**70}, {"page_size": 2**40, "first_page": 2**30}])
def test_pools_whose_slots_have_no_number_are_refused(settings):
    with pytest.raises(InvalidConfig, match="slots go up to"):
        CacheConfig(num_pages=4, **settings)
