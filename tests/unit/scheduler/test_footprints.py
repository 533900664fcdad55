from radixcache import CacheConfig, PrefixCache
from scheduler import Request
from scheduler.footprints import Footprints


def test_pages_are_counted_behind_what_was_matched_and_whole():
    cache = PrefixCache(CacheConfig(num_pages=16, page_size=4))
    with cache.open(range(9)) as before:
        before.reserve(9)
        before.advance(9)
    runs, waits = Request.of("a", range(14), 5), Request.of("b", range(9), 5)
    runs.sequence = cache.open(runs.prompt)
    runs.own_from = runs.sequence.matched_len
    runs.sequence.reserve(6)
    waits.own_from = 4
    both = Footprints.of([runs, waits])
    assert runs.own_from == 8
    assert both.own_pages(4).tolist() == [2, 2]
    assert both.held_pages(4) == cache.pages.private == 2
    runs.output.extend([1, 2, 3])
    assert Footprints.of([runs]).own_pages(4).tolist() == [3]
