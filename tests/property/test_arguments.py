import numpy as np
import pytest

from radixcache import CacheConfig, PrefixCache, RadixCacheError, check
from tests.property.dump import dump
from tests.property.misuse import of_cache, of_ended, of_live, refused
from tests.steps import begin, make_cache, put, run_of

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, int]


@pytest.mark.parametrize("integer", INTEGERS)
def test_lengths_of_any_integer_type_do_not_wrap_round(integer) -> None:
    cache = make_cache(40, 16)
    put(cache, run_of(0, 200))
    seq = cache.open(run_of(0, 320))
    assert seq.computed_len == 192
    seq.reserve(integer(127))
    assert seq.reserved_len == 320
    seq.advance(integer(127))
    assert seq.computed_len == 319
    assert type(seq.computed_len) is int
    assert seq.slots(integer(100), integer(120)).tolist() == seq.slots(100, 120).tolist()
    assert cache.evict(integer(0)) == 0
    check(cache)


@pytest.mark.parametrize("kind", ["cache", "open", "active", "with copies", "ended"])
def test_refused_calls_change_nothing(kind: str) -> None:
    cache = PrefixCache(CacheConfig(num_pages=12, page_size=4, partial_reuse=True, max_events=8))
    cache.advance_time(5.0)
    put(cache, run_of(0, 9))
    live = begin(cache, run_of(0, 7))
    attempts = {
        "cache": lambda: of_cache(cache),
        "open": lambda: of_live(cache.open(run_of(0, 9))),
        "active": lambda: of_live(live),
        "with copies": lambda: of_live(live.fork()),
        "ended": lambda: of_ended(_ended(cache)),
    }[kind]()
    attempts = list(attempts)
    before = dump(cache)
    for misuse in attempts:
        refused(misuse)
        assert dump(cache) == before, misuse.what
    assert len(attempts) >= 10


def _ended(cache: PrefixCache):
    seq = cache.open([1])
    seq.abort()
    return seq


@pytest.mark.parametrize("now", [4.999, -1, 10**400])
def test_time_does_not_fall(now: float) -> None:
    cache = make_cache()
    cache.advance_time(np.float32(5))
    before = dump(cache)
    with pytest.raises(RadixCacheError, match=r"time|now"):
        cache.advance_time(now)
    assert dump(cache) == before


def test_the_dump_sees_what_a_sequence_changes() -> None:
    cache = make_cache(12, 4)
    put(cache, run_of(0, 9))
    dumps = [dump(cache)]
    seq = cache.open(run_of(0, 6))
    dumps.append(dump(cache))
    seq.reserve(2)
    dumps.append(dump(cache))
    seq.abort()
    dumps.append(dump(cache))
    assert len(set(dumps)) == 4
