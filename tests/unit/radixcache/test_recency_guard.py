"""Falling back to recency: the books of LRU against an LRU, and when they decide."""

import random

import pytest

from radixcache import CacheConfig, PrefixCache, check
from radixcache.eviction.hazard import Hazard
from tests.steps import make_cache, matched, put, run_of


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


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize("eviction", ["wa", "hazard", "gdsf"])
@pytest.mark.parametrize("num_pages", [150, 400])
def test_the_books_say_what_lru_would_have_found(eviction, num_pages: int) -> None:
    caches = [
        PrefixCache(CacheConfig(num_pages=num_pages, page_size=1, eviction=name))
        for name in ("lru", eviction)
    ]
    (lru, asked), (own, _) = (talks(cache) for cache in caches)
    lead = caches[1]._state.tree.policy._guard.trust._account
    assert abs((own - lru) - lead) < 0.001 * asked
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
    assert rates["guarded"] > rates["lru"] - 0.01


@pytest.mark.usefixtures("unguarded")
def test_without_the_guard_it_loses_much() -> None:
    found, asked = talks(make_cache(300, 1, eviction=Backwards), 2)
    best, _ = talks(make_cache(300, 1), 2)
    assert found < best - 0.1 * asked


def test_pages_trimmed_one_by_one_are_one_ghost() -> None:
    cache = make_cache(256, 1, eviction="hazard")
    put(cache, run_of(0, 40))
    for _ in range(30):
        cache.evict(1)
    guard = cache._state.tree.policy._guard
    assert len(guard._ghosts) == 1
    before = guard.trust._account
    put(cache, run_of(0, 40))
    assert guard.trust._account == before - 30


def test_a_request_that_diverges_leaves_the_rest_of_a_ghost() -> None:
    cache = make_cache(256, 1, eviction="hazard")
    put(cache, run_of(0, 40))
    cache.evict(40)
    guard = cache._state.tree.policy._guard
    for prompt, lost in (([*run_of(0, 25), *run_of(900, 5)], 25), (run_of(0, 40), 15), (run_of(0, 40), 0)):
        before = guard.trust._found_by_lru
        found = matched(cache, prompt)
        put(cache, prompt)
        assert guard.trust._found_by_lru - before == found - (found == 40) + lost
