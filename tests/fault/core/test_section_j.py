"""Numbers that people read: each thing counted once, zero said as zero, and everything summing up."""

import random

import pytest

from radixcache import MissReason, OutOfPages, PrefixCache, Sequence
from tests.steps import begin, compute, make_cache, put, run_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))


# J01


def test_j01_recomputing_after_preemptions_is_no_hit() -> None:
    rng = random.Random(1)
    cache = make_cache(num_pages=40, page_size=4)
    for number in range(20):
        prompt = [rng.randrange(2**30) for _ in range(20)]
        for attempt in range(3):
            seq = begin(cache, prompt, resumed=attempt > 0)
            seq.publish()
            seq.abort()
        assert cache.stats.lookups == number + 1
    stats = cache.stats
    assert (stats.hit_rate, stats.matched_tokens) == (0.0, 0)
    assert (stats.resumed_lookups, stats.resumed_tokens) == (40, 800)
    assert stats.resumed_matched_tokens == 40 * 16


# J02


def test_j02_a_request_tried_a_hundred_times_is_counted_once() -> None:
    cache = make_cache(num_pages=6, page_size=4)
    put(cache, A)
    other = begin(cache, run_of(900, 16))
    for attempt in range(100):
        seq = cache.open([*A, *B, *C, 1])
        with pytest.raises(OutOfPages):
            seq.reserve(9)
        seq.abort()
        assert (cache.stats.lookups, cache.stats.failed_reserves) == (2, attempt + 1)
    other.abort()
    begin(cache, [*A, *B, *C, 1]).close()
    stats = cache.stats
    assert (stats.lookups, stats.prompt_tokens, stats.matched_tokens) == (3, 4 + 16 + 13, 4)


def test_j02_so_is_one_that_retries_the_reserve_itself() -> None:
    cache = make_cache(num_pages=6, page_size=4)
    other = begin(cache, run_of(900, 16))
    seq = cache.open([*A, *B, *C])
    for _ in range(10):
        with pytest.raises(OutOfPages):
            seq.reserve(12)
    other.abort()
    compute(seq)
    for _ in range(10):
        seq.reserve(1)
    assert (cache.stats.lookups, cache.stats.prompt_tokens) == (2, 28)
    seq.close()


# J03


@pytest.mark.parametrize("num_answered", range(14))
def test_j03_what_was_cached_is_that_of_the_first_admission_and_never_more_than_the_prompt(
    num_answered: int,
) -> None:
    cache = make_cache(num_pages=20, page_size=4)
    put(cache, A)
    prompt = A + B
    seq = begin(cache, prompt)
    first = seq.matched_len
    for number in range(num_answered):
        seq.append([1000 + number])
        compute(seq)
    seq.publish()
    seq.abort()
    again = cache.open([*prompt, *run_of(1000, num_answered)], resumed=True)
    again.reserve(1)
    stats = cache.stats
    assert (stats.matched_tokens, stats.prompt_tokens) == (first, 12)
    assert stats.matched_tokens <= stats.prompt_tokens
    assert stats.resumed_matched_tokens <= stats.resumed_tokens == 8 + num_answered
    again.abort()


@pytest.mark.parametrize("seed", range(5))
def test_j03_rates_stay_within_zero_and_one_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=10, page_size=2, partial_reuse=bool(seed % 2))
    for _ in range(300):
        prompt = [rng.randrange(2) for _ in range(rng.randrange(1, 10))]
        seq = cache.open(prompt, resumed=rng.random() < 0.3, read=rng.random() < 0.9)
        try:
            compute(seq)
        except OutOfPages:
            seq.abort()
            continue
        seq.append([rng.randrange(2)])
        rng.choice([seq.close, seq.abort])()
        stats = cache.stats
        assert 0.0 <= stats.hit_rate <= 1.0
        assert stats.matched_tokens + stats.copied_tokens <= stats.prompt_tokens


# J04


def test_j04_a_miss_is_reported_as_zero_and_not_left_out() -> None:
    cache = make_cache(num_pages=10, page_size=4)
    assert set(cache.stats.missed_tokens) == set(MissReason)
    assert set(cache.stats.missed_tokens.values()) == {0}
    seq = begin(cache, A)
    assert (seq.matched_len, cache.stats.matched_tokens, cache.stats.hit_rate) == (0, 0, 0.0)
    seq.close()


# J05


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("partial_reuse", [False, True])
def test_j05_prompt_less_computed_is_cached_always(seed: int, partial_reuse: bool) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=20, page_size=4, partial_reuse=partial_reuse)
    computed = prompts = 0
    for _ in range(100):
        prompt = [rng.randrange(2) for _ in range(rng.randrange(1, 20))]
        seq = cache.open(prompt)
        seq.reserve(len(prompt) - seq.computed_len)
        seq.take_copies()
        computed += seq.num_tokens - seq.computed_len
        prompts += len(prompt)
        seq.advance(seq.num_tokens - seq.computed_len)
        seq.close()
        stats = cache.stats
        assert stats.prompt_tokens == prompts
        assert prompts - computed == stats.matched_tokens + stats.copied_tokens
        assert prompts - stats.matched_tokens == sum(stats.missed_tokens.values())


# J06


def test_j06_what_is_lost_to_the_page_size_has_a_name_of_its_own() -> None:
    cache = make_cache(num_pages=10, page_size=784)
    shared = run_of(0, 240)
    for number in range(3):
        put(cache, [*shared, 5000 + number])
    stats = cache.stats
    assert stats.matched_tokens == 0
    assert stats.missed_tokens == {
        **dict.fromkeys(MissReason, 0),
        MissReason.SHORTER_THAN_PAGE: 3 * 241,
    }


def test_j06_never_seen_evicted_and_granularity_do_not_look_alike() -> None:
    cache = make_cache(num_pages=10, page_size=4)
    put(cache, [*A, 1])
    cache.evict(1)
    put(cache, [*A, 1])
    put(cache, [*B, *C, 1, 2])
    stats = cache.stats
    assert stats.missed_tokens[MissReason.NEVER_SEEN] == 4 + 8
    assert stats.missed_tokens[MissReason.EVICTED] == 4
    assert stats.missed_tokens[MissReason.SHORTER_THAN_PAGE] == 1 + 1 + 2


# J07


def test_j07_the_rate_is_cached_over_all_prompt_tokens() -> None:
    """Read as one provider counts (prompt includes cached) or another (input excludes it): one number."""
    cache = make_cache(num_pages=100, page_size=4)
    put(cache, run_of(0, 80))
    put(cache, [*run_of(0, 80), *run_of(900, 20)])
    stats = cache.stats
    assert (stats.matched_tokens, stats.prompt_tokens) == (80, 180)
    uncached_input = stats.prompt_tokens - stats.matched_tokens
    assert stats.hit_rate == 80 / 180 == stats.matched_tokens / (stats.matched_tokens + uncached_input)


# J08


def test_j08_every_page_is_in_one_of_four_gauges_at_every_moment() -> None:
    cache = make_cache(num_pages=8, page_size=4)
    seen = []

    def look(cache: PrefixCache) -> None:
        assert sum(cache.pages[:4]) == cache.pages.total == 8
        seen.append(tuple(cache.pages[:4]))

    look(cache)
    seq = cache.open([*A, *B, 1])
    look(cache)
    seq.reserve(9)
    look(cache)
    seq.advance(9)
    seq.publish()
    look(cache)
    seq.close()
    look(cache)
    cache.evict(1)
    look(cache)
    assert seen == [(8, 0, 0, 0), (8, 0, 0, 0), (5, 3, 0, 0), (5, 1, 0, 2), (6, 0, 2, 0), (7, 0, 1, 0)]


# J09


@pytest.mark.parametrize("verb", ["close", "abort"])
def test_j09_whoever_may_not_read_the_cache_is_not_counted(verb: str) -> None:
    cache = make_cache(num_pages=20, page_size=4)
    put(cache, A)
    before = cache.stats
    seq: Sequence = begin(cache, [*A, *B, 1], read=False)
    getattr(seq, verb)()
    after = cache.stats
    for name in (
        "lookups",
        "prompt_tokens",
        "matched_tokens",
        "copied_tokens",
        "missed_tokens",
        "resumed_lookups",
    ):
        assert getattr(after, name) == getattr(before, name)
    assert after.hit_rate == before.hit_rate


def test_j09_nor_are_forks_and_peeks() -> None:
    cache = make_cache(num_pages=20, page_size=4)
    parent = begin(cache, [*A, 1])
    child = parent.fork()
    child.take_copies()
    child.reserve(1)
    cache.peek([*A, 1])
    assert (cache.stats.lookups, cache.stats.prompt_tokens) == (1, 5)
    child.abort()
    parent.abort()


def test_j09_resumed_reads_that_may_not_read_count_nothing_either() -> None:
    cache = make_cache(num_pages=20, page_size=4)
    begin(cache, [*A, 1], read=False, resumed=True).close()
    assert (cache.stats.lookups, cache.stats.resumed_lookups) == (0, 0)
