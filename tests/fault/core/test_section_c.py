"""Matching and alignment: whole pages, from the start of the prompt, and something left to compute."""

import random
from array import array

import pytest

from radixcache import MissReason, PrefixCache
from tests.steps import Engine, begin, compute, make_cache, matched, pages_of, put, run_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))


# C01


@pytest.mark.parametrize(("num_tokens", "expected"), [(4, 0), (8, 4), (9, 8)], ids=["S", "2S", "2S+1"])
def test_c01_a_fully_cached_prompt_leaves_a_token_to_compute_and_its_last_page_is_cached_once(
    num_tokens: int, expected: int
) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    prompt = run_of(0, num_tokens)
    pages = put(cache, prompt)
    for _ in range(3):
        seq = begin(cache, prompt)
        assert seq.matched_len == expected
        assert seq.num_tokens - seq.matched_len > 0
        seq.close()
        assert pages_of(cache, prompt) == pages
        assert cache.pages == (8 - num_tokens // 4, 0, num_tokens // 4, 0, 8)


@pytest.mark.parametrize("page_size", [1, 2, 3, 4, 16])
def test_c01_for_every_length_and_page_size(page_size: int) -> None:
    for num_tokens in range(1, 3 * page_size + 2):
        cache = make_cache(num_pages=8, page_size=page_size, partial_reuse=False)
        prompt = run_of(0, num_tokens)
        put(cache, prompt)
        expected = (num_tokens - 1) // page_size * page_size
        assert cache.peek(prompt).matched_len == expected
        seq = cache.open(prompt)
        assert seq.matched_len == expected < num_tokens
        seq.abort()


def test_c01_with_partial_pages_a_token_is_left_too() -> None:
    for num_tokens in range(1, 14):
        cache = make_cache(num_pages=12, page_size=4, partial_reuse=True)
        prompt = run_of(0, num_tokens)
        put(cache, run_of(0, 16))
        seq = cache.open(prompt)
        seq.reserve(1)
        assert seq.computed_len == num_tokens - 1
        assert seq.matched_len == (num_tokens - 1) // 4 * 4
        seq.take_copies()
        seq.advance(1)
        seq.close()


# C03


def test_c03_what_is_left_to_compute_counts_from_the_match_not_from_the_whole_prompt() -> None:
    cache = make_cache(num_pages=64, page_size=20)
    prompt = run_of(0, 900)
    put(cache, prompt[:600])
    seq = cache.open(prompt)
    steps = []
    while seq.computed_len < seq.num_tokens:
        step = min(512, seq.num_tokens - seq.computed_len)
        seq.reserve(step)
        seq.advance(step)
        seq.publish()
        steps.append(step)
    seq.close()
    assert steps == [300]


@pytest.mark.parametrize("seed", range(5))
def test_c03_there_is_never_an_empty_step_in_any_conversation(seed: int) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=64, page_size=4)
    talk: list[int] = []
    for _ in range(12):
        talk += [rng.randrange(9) for _ in range(rng.randrange(1, 14))]
        seq = cache.open(talk)
        assert seq.num_tokens - seq.computed_len >= 1
        chunk = rng.randrange(1, 9)
        while seq.computed_len < seq.num_tokens:
            step = min(chunk, seq.num_tokens - seq.computed_len)
            seq.reserve(step)
            seq.advance(step)
            seq.publish()
        answer = [rng.randrange(9) for _ in range(rng.randrange(1, 6))]
        for token in answer:
            seq.append([token])
            compute(seq)
        seq.close()
        talk += answer


# C04


def test_c04_a_match_reaches_over_any_number_of_chunks_and_is_counted_once() -> None:
    cache = make_cache(num_pages=64, page_size=4)
    put(cache, run_of(0, 80))
    seq = cache.open([*run_of(0, 80), *run_of(500, 24)])
    assert seq.matched_len == 80
    for _ in range(3):
        seq.reserve(8)
        seq.advance(8)
        seq.publish()
        assert (seq.matched_len, cache.stats.matched_tokens) == (80, 80)
    seq.close()
    assert cache.stats.matched_tokens == 80


def test_c04_pages_published_by_the_sequence_itself_are_no_hits() -> None:
    cache = make_cache(num_pages=64, page_size=4)
    seq = cache.open(run_of(0, 40))
    while seq.computed_len < 40:
        seq.reserve(4)
        seq.advance(4)
        seq.publish()
    seq.close()
    assert (cache.stats.matched_tokens, cache.stats.duplicate_pages) == (0, 0)


# C05


@pytest.mark.parametrize("stop", range(1, 20))
def test_c05_after_a_preemption_work_and_match_sum_to_the_whole(stop: int) -> None:
    engine = Engine(make_cache(num_pages=8, page_size=4))
    tokens = run_of(0, 20)
    running = engine.open(tokens)
    engine.compute(running, stop)
    running.seq.publish()
    engine.abort(running)
    again = engine.open(tokens, resumed=True)
    work = again.seq.num_tokens - again.seq.matched_len
    assert again.seq.matched_len == stop // 4 * 4
    engine.compute(again, work)
    assert again.seq.computed_len == again.seq.matched_len + work == 20
    engine.verify()
    engine.close(again)


def test_c05_pages_evicted_between_the_count_and_the_lock_cannot_be_as_open_is_both() -> None:
    cache = make_cache(num_pages=5, page_size=4)
    put(cache, run_of(0, 16))
    waiting = [cache.open([*run_of(0, 16), number]) for number in range(3)]
    with pytest.raises(MemoryError):
        waiting[0].reserve(8)
    for seq in waiting:
        assert len(seq.page_table) * 4 == seq.matched_len == 16
        seq.abort()


# C07


@pytest.mark.parametrize("partial_reuse", [False, True])
def test_c07_text_seen_in_the_middle_is_no_prefix(partial_reuse: bool) -> None:
    cache = make_cache(num_pages=16, page_size=4, partial_reuse=partial_reuse)
    put(cache, C + A)
    put(cache, B)
    assert matched(cache, A) == 0
    assert matched(cache, B + A) == 4
    seq = cache.open([*B, *A, 1])
    assert (seq.matched_len, seq.partial) == (4, None)
    seq.abort()


@pytest.mark.parametrize("seed", range(5))
def test_c07_only_whole_prefixes_match(seed: int) -> None:
    rng = random.Random(seed)
    cache = make_cache(num_pages=64, page_size=2)
    known: set[tuple[int, ...]] = set()
    for _ in range(15):
        prompt = [rng.randrange(2) for _ in range(rng.randrange(1, 9))]
        put(cache, prompt)
        known |= {tuple(prompt[:end]) for end in range(2, len(prompt) + 1, 2)}
    for _ in range(100):
        prompt = [rng.randrange(2) for _ in range(8)]
        expected = max(end for end in (0, 2, 4, 6, 8) if not end or tuple(prompt[:end]) in known)
        assert matched(cache, prompt) == expected


# C08


def test_c08_extensions_and_halves_of_what_is_cached_hit() -> None:
    cache = make_cache(num_pages=32, page_size=4)
    x, u, v, w = run_of(0, 22), run_of(500, 6), run_of(600, 7), run_of(700, 5)
    put(cache, x)
    assert begin_and_close(cache, x + u) == 20
    assert begin_and_close(cache, x + u + v) == 28
    assert begin_and_close(cache, x[:11] + w) == 8


def begin_and_close(cache: PrefixCache, prompt: list[int]) -> int:
    seq = begin(cache, prompt)
    seq.close()
    return seq.matched_len


def test_c08_the_next_turn_hits_prompt_and_answer() -> None:
    cache = make_cache(num_pages=32, page_size=4)
    talk = run_of(0, 9)
    for turn in range(4):
        seq = begin(cache, talk)
        answer = run_of(1000 * (turn + 1), 7)
        for token in answer:
            seq.append([token])
            compute(seq)
        seq.close()
        talk = talk + answer
        assert cache.peek([*talk, 1]).matched_len == len(talk) // 4 * 4
        talk += run_of(2000 * (turn + 1), 3)


# C09


@pytest.mark.parametrize("first_page", [0, 1, 5])
def test_c09_slots_follow_the_page_table_in_a_shuffled_pool(first_page: int) -> None:
    rng = random.Random(9)
    engine = Engine(make_cache(num_pages=12, page_size=4, first_page=first_page))
    state = engine.cache._state.allocator
    pages = state.alloc(12)
    state.free(array("i", rng.sample(pages.tolist(), 12)))
    for round_ in range(20):
        engine.put(run_of(100 * (round_ % 4), rng.randrange(5, 25)))
        running = engine.begin(run_of(100 * (round_ % 3), 18))
        table = running.seq.page_table
        for position, slot in enumerate(running.seq.slots(0, 18).tolist()):
            assert slot == int(table[position // 4]) * 4 + position % 4
        assert table.min() >= first_page
        engine.verify()
        engine.close(running)


def test_c09_pages_of_one_sequence_need_not_be_neighbours() -> None:
    cache = make_cache(num_pages=6, page_size=1)
    first = begin(cache, [1, 2])
    second = begin(cache, [3, 4])
    first.append([5])
    compute(first)
    table = first.page_table.tolist()
    assert table[2] != table[1] + 1
    assert first.slots(0, 3).tolist() == table
    second.abort()
    first.abort()


def test_a_miss_at_the_page_edge_says_what_it_was() -> None:
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A)
    for prompt, reason in ((A, MissReason.LAST_TOKEN), (A[:3], MissReason.SHORTER_THAN_PAGE)):
        seq = cache.open(prompt)
        assert seq.miss is not None
        assert seq.miss.tail_reason is reason
        seq.abort()
