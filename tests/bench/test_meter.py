import pytest

from bench.harness.meter import Meter
from bench.scenarios.timed_cache import TimedCache
from radixcache import CacheConfig, Tokens
from radixcache.events import EventLog


def test_sections_of_a_lap_are_one_sample_of_its_kind():
    meter = Meter()
    assert [meter.time(pow, 2, exponent) for exponent in (3, 4)] == [8, 16]
    meter.lap()
    meter.time(sorted, [2, 1], reverse=True)
    meter.lap("other")
    assert meter.num_sections == 3
    assert {kind: len(meter.samples(kind)["cpu"]) for kind in ("", "other")} == {"": 1, "other": 1}


def test_the_clock_is_taken_out_once_for_each_section_of_a_lap():
    meter = Meter()
    for num_sections in (3, 1):
        for _ in range(num_sections):
            meter.time(list)
        meter.lap()
    empty = {"cpu": [1.0, 2.0, 9.0], "wall": [0.5]}
    whole, less = meter.samples(), meter.samples(empty=empty)
    for clock, median in (("cpu", 2.0), ("wall", 0.5)):
        taken_out = [one - other for one, other in zip(whole[clock], less[clock], strict=True)]
        assert taken_out == pytest.approx([3 * median, median])


def test_section_that_raises_adds_nothing():
    meter = Meter()
    with pytest.raises(ZeroDivisionError):
        meter.time(divmod, 1, 0)
    meter.lap()
    assert (meter.num_sections, meter.samples()["wall"]) == (0, [0.0])


def test_cleared_meter_has_no_samples():
    meter = Meter()
    meter.time(list)
    meter.lap()
    meter.clear()
    with pytest.raises(KeyError):
        meter.samples()


def test_observers_of_a_timed_cache_hear_everything():
    meter = Meter()
    cache = TimedCache(CacheConfig(num_pages=4, page_size=2), meter)
    log = EventLog(10)
    cache.subscribe(log)
    with cache.open(Tokens([1, 2, 3])) as seq:
        seq.reserve(3)
        seq.advance(3)
    cache.evict(1)
    cache.reset()
    assert log.epoch == 1
    assert meter.num_sections == 3
