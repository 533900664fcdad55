"""Answers with and without the cache, and requests that need every position computed."""

import random
from typing import Any

import pytest

from radixcache import EVICTION_POLICIES, NullPrefixCache, OutOfPages, PrefixCache, Sequence
from radixcache.config import CacheConfig
from tests.steps import make_cache, matched, put, run_of

VOCABULARY, PRIME = 3, 2**31 - 1


# M01


@pytest.mark.parametrize("num_cached", range(0, 13, 4))
def test_m01_whoever_needs_every_position_reads_nothing_may_publish_and_is_not_counted(
    num_cached: int,
) -> None:
    cache = make_cache(num_pages=20, page_size=4, partial_reuse=True)
    prompt = run_of(0, 13)
    if num_cached:
        put(cache, prompt[:num_cached])
    before = cache.stats
    seq = cache.open(prompt, read=False)
    assert (seq.matched_len, seq.computed_len, seq.partial, seq.miss) == (0, 0, None, None)
    seq.reserve(13)
    assert seq.slots(0, 13).shape == (13,)
    seq.advance(13)
    seq.close()
    assert matched(cache, prompt) == 12
    after = cache.stats
    assert (after.lookups, after.prompt_tokens, after.matched_tokens) == (
        before.lookups,
        before.prompt_tokens,
        before.matched_tokens,
    )
    assert cache.pages == (17, 0, 3, 0, 20)


@pytest.mark.parametrize("start", range(14))
def test_m01_whoever_needs_positions_from_some_on_matches_no_further(start: int) -> None:
    """Log-probabilities of positions [start, end): the engine opens with the prompt cut behind `start`."""
    cache = make_cache(num_pages=20, page_size=4)
    prompt = run_of(0, 14)
    put(cache, prompt)
    seq = cache.open(prompt[: start + 1])
    assert seq.matched_len <= start
    seq.append(prompt[start + 1 :])
    seq.reserve(14 - seq.computed_len)
    seq.advance(14 - seq.computed_len)
    seq.close()
    assert matched(cache, prompt) == 12


# M02


class Toy:
    """A model of two layers in exact integers, whose KV lives in the pages of a cache.

    The second layer's KV of a position depends on all positions before it, so that a page that holds the KV
    of other tokens, or of none, changes what is generated.
    """

    def __init__(self, cache: PrefixCache) -> None:
        self.cache = cache
        self.kv: dict[int, tuple[int, int]] = {}
        self.num_computed = 0

    def generate(
        self, prompt: list[int], num_answer: int, *, chunk: int, seed: int = 0, **how: Any
    ) -> list[int]:
        seq = self.cache.open(prompt, **how)
        rng = random.Random(seed)
        tokens = list(prompt)
        answer: list[int] = []
        while len(answer) < num_answer:
            last = self._step(seq, tokens, chunk)
            if rng.random() < 0.3:
                seq.publish()
            if rng.random() < 0.1:
                twin = seq.fork()
                self._copy(twin)
                (first, second) = (seq, twin) if rng.random() < 0.5 else (twin, seq)
                first.close()
                seq = second
            if last is not None:
                answer.append(last % VOCABULARY)
                tokens.append(answer[-1])
                seq.append([answer[-1]])
        seq.close()
        return answer

    def _copy(self, seq: Sequence) -> None:
        size = self.cache.config.page_size
        for source, target, num_tokens in seq.take_copies():
            for offset in range(num_tokens):
                self.kv[target * size + offset] = self.kv[source * size + offset]

    def _step(self, seq: Sequence, tokens: list[int], chunk: int) -> int | None:
        """Compute up to `chunk` tokens; the last layer's value of the last token once all are."""
        seq.reserve(min(chunk, seq.num_tokens - seq.computed_len))
        self._copy(seq)
        start = seq.computed_len
        stop = min(seq.num_tokens, start + chunk, seq.reserved_len)
        slots = seq.slots(0, stop).tolist()
        value = None
        for position in range(start, stop):
            low = (tokens[position] + 1) * (position + 7) * 31 % PRIME
            seen = sum(self.kv[slot][0] for slot in slots[:position]) + low
            high = (seen * (tokens[position] + 3) + position) % PRIME
            self.kv[slots[position]] = (low, high)
            value = (
                sum(self.kv[slot][1] * (order + 1) for order, slot in enumerate(slots[: position + 1]))
                % PRIME
            )
            self.num_computed += 1
        seq.advance(stop - start)
        return value if stop == seq.num_tokens else None


def requests(seed: int) -> list[tuple[list[int], int]]:
    rng = random.Random(seed)
    talks: list[list[int]] = [[0] * 6, [1] * 9, [0, 1, 2] * 3]
    made = []
    for _ in range(25):
        talk = rng.choice(talks)
        cut = rng.randrange(1, len(talk) + 1)
        prompt = talk[:cut] + [rng.randrange(VOCABULARY) for _ in range(rng.randrange(0, 5))]
        talks.append(prompt)
        made.append((prompt, rng.randrange(1, 6)))
    return made


def cold(prompt: list[int], num_answer: int) -> list[int]:
    cache = NullPrefixCache(CacheConfig(num_pages=64, page_size=1))
    return Toy(cache).generate(prompt, num_answer, chunk=64)


@pytest.mark.parametrize("partial_reuse", [False, True])
@pytest.mark.parametrize("page_size", [1, 2, 4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_m02_warm_answers_are_cold_answers_bit_for_bit(
    seed: int, page_size: int, partial_reuse: bool
) -> None:
    num_pages = 100 // page_size
    toy = Toy(make_cache(num_pages=num_pages, page_size=page_size, partial_reuse=partial_reuse))
    rng = random.Random(seed)
    for prompt, num_answer in requests(seed):
        chunk = rng.choice((1, 2, 3, 5, 64))
        assert toy.generate(prompt, num_answer, chunk=chunk, seed=seed) == cold(prompt, num_answer)
    if page_size < 16:
        assert toy.cache.stats.matched_tokens > 0


@pytest.mark.parametrize("eviction", EVICTION_POLICIES)
def test_m02_with_every_policy_under_pressure(eviction: str) -> None:
    toy = Toy(make_cache(num_pages=16, page_size=2, eviction=eviction, partial_reuse=True))
    for prompt, num_answer in requests(11):
        if len(prompt) + num_answer > 20:
            continue
        try:
            found = toy.generate(prompt, num_answer, chunk=3, seed=1)
        except OutOfPages:
            pytest.fail("a pool of 32 tokens has room for 20 and a fork")
        assert found == cold(prompt, num_answer)
    assert toy.cache.stats.evicted_pages > 0


@pytest.mark.parametrize("how", [{"read": False}, {"write": False}, {"read": False, "write": False}])
def test_m02_reading_or_writing_can_be_switched_off_to_find_a_culprit(how: dict[str, bool]) -> None:
    toy = Toy(make_cache(num_pages=64, page_size=2, partial_reuse=True))
    for prompt, num_answer in requests(5):
        toy.generate(prompt, num_answer, chunk=4)
    before = toy.num_computed
    for prompt, num_answer in requests(5)[:5]:
        assert toy.generate(prompt, num_answer, chunk=4, **how) == cold(prompt, num_answer)
    if not how.get("read", True):
        assert toy.num_computed - before == sum(len(prompt) + num - 1 for prompt, num in requests(5)[:5])


def test_m02_the_toy_notices_a_page_that_holds_the_wrong_kv() -> None:
    """So that the tests above mean something."""
    toy = Toy(make_cache(num_pages=64, page_size=2))
    prompt = [0, 1, 2, 0, 1]
    toy.generate(prompt, 6, chunk=8, seed=5)
    for slot in toy.kv:
        toy.kv[slot] = (5, 5)
    answers = {
        tuple(toy.generate([*prompt, token], 6, chunk=8)) == tuple(cold([*prompt, token], 6))
        for token in range(3)
    }
    assert answers != {True}
