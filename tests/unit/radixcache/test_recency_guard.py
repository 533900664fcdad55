"""Falling back to recency: the books of LRU against an LRU, and when they decide."""

import random
from itertools import pairwise

import pytest

from radixcache import CacheConfig, PrefixCache, check
from radixcache.eviction.hazard import Hazard
from radixcache.eviction.recency_guard import FIRST_PAUSE, TOLERANCE, RecencyGuard
from tests.steps import make_cache, put, run_of


def talks(cache: PrefixCache, seed: int = 1, num_requests: int = 3000) -> tuple[int, int]:
    """Conversations that branch, end and return at random. Returns: tokens found, tokens asked for."""
    rng, live, found, asked = random.Random(seed), [], 0, 0
    for number in range(num_requests):
        if live and rng.random() < 0.7:
            talk = live.pop(rng.randrange(len(live)))
            talk = [
                *talk[: len(talk) - rng.choice((0, 0, 1))],
                *run_of(100 * number + 1000, rng.randrange(1, 6)),
            ]
        else:
            talk = [*run_of(0, rng.randrange(0, 4)), *run_of(100 * number + 1000, rng.randrange(1, 12))]
        if rng.random() < 0.8:
            live.append(talk[:60])
        seq = cache.open([*talk, 2**31 - 1])
        found, asked = found + seq.matched_len, asked + len(talk)
        missing = len(talk) - seq.matched_len
        if missing:
            seq.reserve(missing)
            seq.advance(missing)
        seq.close()
        live = live[-40:]
    check(cache)
    return found, asked


@pytest.mark.parametrize("eviction", ["wa", "hazard", "gdsf"])
@pytest.mark.parametrize("num_pages", [150, 400])
def test_the_books_say_what_lru_would_have_found(eviction, num_pages: int, monkeypatch) -> None:
    monkeypatch.setattr(RecencyGuard, "_decide", lambda self: False)
    caches = [
        PrefixCache(CacheConfig(num_pages=num_pages, page_size=1, eviction=name))
        for name in ("lru", eviction)
    ]
    (lru, asked), (own, _) = (talks(cache) for cache in caches)
    lead = caches[1]._state.tree.policy._guard._lead
    assert abs((own - lru) - lead) < 0.004 * asked
    assert own != lru


class Backwards(Hazard):
    """Keeps what is oldest."""

    def worth(self, key, age):
        return age, 0.0


def test_a_policy_that_finds_less_than_recency_loses_little() -> None:
    rates = {}
    for name, eviction in {"lru": "lru", "guarded": Backwards}.items():
        found, asked = talks(
            PrefixCache(CacheConfig(num_pages=300, page_size=1, eviction=eviction)), 2, 6_000
        )
        rates[name] = found / asked
    assert rates["guarded"] > rates["lru"] - 0.02


def test_without_the_guard_it_loses_much(monkeypatch) -> None:
    monkeypatch.setattr(RecencyGuard, "_decide", lambda self: False)
    found, asked = talks(make_cache(300, 1, eviction=Backwards), 2)
    best, _ = talks(make_cache(300, 1), 2)
    assert found < best - 0.1 * asked


def fall_behind(guard: RecencyGuard, turnovers: int) -> list[bool]:
    """What the guard said after each turnover's worth of misses that LRU would have found."""
    said = []
    for _ in range(turnovers):
        guard._lead -= int(2 * TOLERANCE * guard._num_pages)
        guard.now += guard._num_pages
        guard._decide()
        said.append(guard.follows_recency)
    return said


def test_pauses_double_while_it_fails_and_shorten_when_it_leads() -> None:
    guard = RecencyGuard(1000)
    said = fall_behind(guard, 60)
    tries = [number for number, follows in enumerate(said) if not follows]
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 2 * gaps[0]
    guard.follows_recency, guard._lead = False, 1000
    guard._decide()
    assert guard._pause == FIRST_PAUSE


def test_pages_trimmed_one_by_one_are_one_ghost() -> None:
    cache = make_cache(256, 1, eviction="hazard")
    put(cache, run_of(0, 40))
    for _ in range(30):
        cache.evict(1)
    guard = cache._state.tree.policy._guard
    assert len(guard._ghosts) == 1
    before = guard._lead
    put(cache, run_of(0, 40))
    assert guard._lead == before - 30
