from collections.abc import Iterator

import pytest

from radixcache import CacheConfig, MissReason, NullPrefixCache, OutOfPages, PrefixCache, check
from radixcache.errors import InvalidArgumentType, InvalidTokens
from tests.steps import begin, run_of

A, B = run_of(100, 2), run_of(200, 2)


@pytest.fixture
def cache() -> Iterator[NullPrefixCache]:
    cache = NullPrefixCache(CacheConfig(num_pages=6, page_size=2))
    yield cache
    check(cache)


def test_it_stands_in_the_caches_place(cache: NullPrefixCache) -> None:
    assert isinstance(cache, PrefixCache)


def test_nothing_is_found_and_nothing_published(cache: NullPrefixCache) -> None:
    for _ in range(3):
        seq = begin(cache, [*A, *B, 0])
        assert (seq.matched_len, seq.published_len) == (0, 0)
        seq.publish()
        assert cache.pages == (3, 3, 0, 0, 6)
        seq.close()
        assert cache.peek([*A, *B, 0]).matched_len == 0
    assert cache.pages.free == 6


def test_lookups_and_prompts_are_counted_and_nothing_matches(cache: NullPrefixCache) -> None:
    for _ in range(2):
        begin(cache, A + B).close()
    stats = cache.stats
    assert (stats.lookups, stats.prompt_tokens, stats.matched_tokens, stats.hit_rate) == (2, 8, 0, 0.0)
    assert stats.missed_tokens[MissReason.NEVER_SEEN] == 6
    assert stats.missed_tokens[MissReason.LAST_TOKEN] == 2


def test_unread_sequences_count_nothing(cache: NullPrefixCache) -> None:
    begin(cache, A + B, read=False).close()
    assert (cache.stats.lookups, cache.stats.prompt_tokens) == (0, 0)


def test_resumed_sequences_count_apart(cache: NullPrefixCache) -> None:
    begin(cache, A + B, resumed=True).close()
    assert (cache.stats.lookups, cache.stats.resumed_lookups) == (0, 1)


def test_a_prompt_of_one_token(cache: NullPrefixCache) -> None:
    seq = begin(cache, [1])
    assert seq.miss is not None
    assert sum(seq.miss.tokens_by_reason().values()) == 1
    seq.close()


def test_pages_run_out_as_in_any_cache(cache: NullPrefixCache) -> None:
    seq = cache.open(run_of(0, 13))
    with pytest.raises(OutOfPages):
        seq.reserve(13)
    seq.abort()


def test_forks_copy_every_page(cache: NullPrefixCache) -> None:
    parent = begin(cache, [*A, 1])
    child = parent.fork()
    assert [copy.num_tokens for copy in child.take_copies()] == [2, 1]
    parent.close()
    child.close()
    assert cache.pages.free == 6


@pytest.mark.parametrize("name", ["peek", "open"])
def test_it_refuses_what_the_cache_refuses(cache: NullPrefixCache, name: str) -> None:
    with pytest.raises(InvalidTokens):
        getattr(cache, name)([])


def test_open_refuses_what_is_no_namespace(cache: NullPrefixCache) -> None:
    with pytest.raises(InvalidArgumentType):
        cache.open(A, 1)


def test_peek_refuses_what_is_no_namespace(cache: NullPrefixCache) -> None:
    with pytest.raises(InvalidArgumentType):
        cache.peek(A, 1)
