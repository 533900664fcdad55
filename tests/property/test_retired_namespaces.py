import pytest

from radixcache import EVICTION_POLICIES, MissReason, check
from tests.steps import begin, make_cache, matched, put, run_of


@pytest.mark.parametrize("eviction", EVICTION_POLICIES)
def test_pages_of_a_retired_namespace_are_not_counted_as_evicted(eviction: str) -> None:
    cache = make_cache(16, 2, eviction=eviction)
    put(cache, run_of(0, 6), "old")
    held = begin(cache, run_of(50, 6), "old")
    held.publish()
    assert cache.retire("old") == 3
    held.close()
    assert cache.pages.free == 16
    assert (cache.stats.evictions, cache.stats.evicted_pages) == (0, 0)


def test_a_retired_namespace_in_use_is_no_other_namespace_that_caches_a_prefix() -> None:
    cache = make_cache(16, 2)
    held = cache.open(run_of(0, 6), "old")
    for _ in range(3):
        held.reserve(2)
        held.advance(2)
        held.publish()
    twin = held.fork()
    assert cache.open(run_of(0, 6), "new").miss.reason is MissReason.OTHER_NAMESPACE
    cache.retire("old")
    held.close()  # its end merges the chunks below the retired root
    assert cache.open(run_of(0, 6), "newest").miss.reason is MissReason.NEVER_SEEN
    twin.close()
    check(cache)


def test_a_namespace_retired_in_use_starts_anew_beside_its_old_holders() -> None:
    cache = make_cache(16, 2)
    held = begin(cache, run_of(0, 6), "model")
    held.publish()
    pages = held.page_table.tolist()
    assert cache.retire("model") == 0
    assert matched(cache, run_of(0, 6), "model") == 0
    put(cache, run_of(0, 6), "model")
    assert matched(cache, run_of(0, 6), "model") == 6
    held.append([7, 7])
    held.reserve(2)
    held.advance(2)
    assert held.page_table.tolist()[:3] == pages
    held.close()
    assert matched(cache, [*run_of(0, 6), 7, 7], "model") == 6
    assert cache.pages == (13, 0, 3, 0, 16)
    check(cache)
