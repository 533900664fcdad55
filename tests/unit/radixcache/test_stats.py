import dataclasses

from radixcache import CacheStats, MissReason, PageCounts
from radixcache.stats import Counters, stats_of


def frozen(counters: Counters) -> CacheStats:
    return stats_of(counters, live_sequences=1, num_nodes=2, num_namespaces=3, num_ghosts=4)


def test_available_pages_are_free_or_evictable() -> None:
    assert PageCounts(free=1, private=2, evictable=4, locked=8, total=15).available == 5


def test_a_snapshot_holds_every_counter_and_four_gauges() -> None:
    counters = Counters(**{name: 10 + at for at, name in enumerate(numbers())})
    stats = frozen(counters)
    for name in numbers():
        assert getattr(stats, name) == getattr(counters, name)
    assert (stats.live_sequences, stats.num_nodes, stats.num_namespaces, stats.num_ghosts) == (1, 2, 3, 4)


def numbers() -> list[str]:
    return [each.name for each in dataclasses.fields(Counters) if each.name != "missed_tokens"]


def test_every_miss_reason_is_reported_from_the_start() -> None:
    assert dict(frozen(Counters()).missed_tokens) == dict.fromkeys(MissReason, 0)


def test_later_counting_does_not_change_a_snapshot() -> None:
    counters = Counters()
    stats = frozen(counters)
    counters.missed_tokens[MissReason.EVICTED] += 5
    counters.lookups += 1
    assert (stats.missed_tokens[MissReason.EVICTED], stats.lookups) == (0, 0)


def test_every_field_is_documented() -> None:
    assert CacheStats.__doc__ is not None
    for each in dataclasses.fields(CacheStats):
        assert f"        {each.name}: " in f"    {CacheStats.__doc__}"


def test_the_hit_rate_is_matched_over_prompt_tokens() -> None:
    assert frozen(Counters()).hit_rate == 0.0
    assert frozen(Counters(prompt_tokens=8, matched_tokens=2)).hit_rate == 0.25
