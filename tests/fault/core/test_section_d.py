"""Publishing: only what is written, chunk by chunk; it stays, whatever becomes of its author."""

import itertools
import random

import pytest

from radixcache import MissReason, OutOfPages
from tests.property.dump import dump
from tests.steps import Engine, begin, compute, make_cache, matched, pages_of, put, run_of

A, B, C, D = (run_of(100 * number, 4) for number in (1, 2, 3, 4))


# D01


@pytest.mark.parametrize("num_written", range(13))
@pytest.mark.parametrize("ending", ["abort", "close", "publish"])
def test_d01_pages_that_were_reserved_and_not_written_are_never_visible(
    num_written: int, ending: str
) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    first = cache.open(run_of(0, 12))
    first.reserve(12)
    first.advance(num_written)
    assert matched(cache, run_of(0, 12)) == 0
    getattr(first, ending)()
    visible = 0 if ending == "abort" else num_written // 4 * 4
    assert matched(cache, run_of(0, 12)) == visible
    second = cache.open([*run_of(0, 12), 1])
    assert second.matched_len == visible


def test_d01_of_two_that_compute_one_prompt_the_aborted_one_publishes_nothing() -> None:
    engine = Engine(make_cache(num_pages=8, page_size=4))
    first, second = engine.open(A + B), engine.open(A + B)
    first.seq.reserve(8)
    engine.compute(second)
    engine.abort(first)
    engine.close(second)
    engine.verify()
    assert matched(engine.cache, A + B) == 8


# D02


def test_d02_the_second_of_a_batch_matches_nothing_the_first_has_not_computed() -> None:
    cache = make_cache(num_pages=8, page_size=4)
    first, second = cache.open([*A, *B, 1]), cache.open([*A, *B, 1])
    assert (first.matched_len, second.matched_len) == (0, 0)
    assert second.miss is not None
    assert second.miss.reason is MissReason.IN_FLIGHT
    for seq in (first, second):
        compute(seq)
    first.close()
    second.close()
    assert cache.stats.matched_tokens == 0
    assert cache.pages == (6, 0, 2, 0, 8)


@pytest.mark.parametrize("seed", range(10))
def test_d02_whoever_matches_reads_written_pages_in_any_interleaving(seed: int) -> None:
    rng = random.Random(seed)
    engine = Engine(make_cache(num_pages=14, page_size=2, partial_reuse=bool(seed % 2)))
    for _ in range(250):
        if len(engine.live) < 3:
            engine.open([rng.randrange(2) for _ in range(rng.randrange(1, 9))])
        running = rng.choice(engine.live)
        left = running.seq.num_tokens - running.seq.computed_len
        kind = rng.randrange(5)
        try:
            if left and kind < 3:
                engine.compute(running, rng.randrange(1, left + 1))
            elif kind == 3:
                running.seq.publish()
            else:
                (engine.close if rng.random() < 0.7 else engine.abort)(running)
        except OutOfPages:
            engine.abort(running)
        engine.verify()


# D03


@pytest.mark.parametrize("ending", ["abort", "close"])
@pytest.mark.parametrize("num_chunks", [1, 2, 3])
def test_d03_what_was_published_chunk_by_chunk_stays_when_its_author_goes(
    num_chunks: int, ending: str
) -> None:
    engine = Engine(make_cache(num_pages=10, page_size=4))
    running = engine.open(run_of(0, 30))
    for _ in range(num_chunks):
        engine.compute(running, 8)
        running.seq.publish()
    running.seq.reserve(5)
    getattr(engine, ending)(running)
    assert engine.cache.pages == (10 - 2 * num_chunks, 0, 2 * num_chunks, 0, 10)
    again = engine.begin(run_of(0, 30))
    assert again.seq.matched_len == 8 * num_chunks
    engine.verify()


@pytest.mark.parametrize(("matched_pages", "published_pages"), list(itertools.product(range(3), range(3))))
def test_d03_abort_gives_back_from_the_published_length_on(matched_pages: int, published_pages: int) -> None:
    cache = make_cache(num_pages=10, page_size=4)
    tokens = run_of(0, 30)
    if matched_pages:
        put(cache, tokens[: 4 * matched_pages])
    seq = cache.open(tokens)
    if published_pages:
        seq.reserve(4 * published_pages)
        seq.advance(4 * published_pages)
        seq.publish()
    seq.reserve(6)
    seq.advance(5)
    table = seq.page_table.tolist()
    kept = matched_pages + published_pages
    seq.abort()
    assert cache.pages == (10 - kept, 0, kept, 0, 10)
    assert pages_of(cache, tokens) == table[:kept]


# D04


def test_d04_a_sequence_that_publishes_nothing_still_makes_progress() -> None:
    cache = make_cache(num_pages=10, page_size=4)
    seq = cache.open(run_of(0, 20), write=False)
    steps = 0
    while seq.computed_len < seq.num_tokens:
        seq.reserve(4)
        seq.advance(4)
        seq.publish()
        steps += 1
    assert (steps, seq.published_len, cache.pages.private) == (5, 0, 5)
    seq.close()
    assert cache.pages.free == 10
    assert matched(cache, run_of(0, 20)) == 0


def test_d04_so_does_one_whose_namespace_was_retired() -> None:
    cache = make_cache(num_pages=10, page_size=4)
    seq = cache.open(run_of(0, 20), "n")
    steps = 0
    while seq.computed_len < seq.num_tokens:
        seq.reserve(4)
        seq.advance(4)
        seq.publish()
        cache.retire("n")
        steps += 1
    assert steps == 5
    seq.close()
    assert cache.pages.free == 10


# D05


@pytest.mark.parametrize("num_tokens", range(1, 14))
def test_d05_publishing_twice_in_a_row_changes_nothing_the_second_time(num_tokens: int) -> None:
    cache = make_cache(num_pages=10, page_size=4)
    seq = begin(cache, run_of(0, num_tokens))
    seq.publish()
    before = dump(cache)
    seq.publish()
    assert dump(cache) == before
    seq.append([5])
    compute(seq)
    seq.publish()
    seq.publish()
    seq.close()
    assert cache.pages.locked == 0


def test_d05_publishing_duplicates_twice_swaps_once() -> None:
    cache = make_cache(num_pages=10, page_size=4)
    one, two = begin(cache, [*A, 1, 2]), begin(cache, [*A, 1, 2])
    for _ in range(2):
        one.publish()
        two.publish()
        assert cache.stats.duplicate_pages == 1
    one.close()
    two.close()
    assert cache.pages == (9, 0, 1, 0, 10)


@pytest.mark.parametrize("seed", range(5))
def test_chunks_of_any_size_publish_the_same_as_one(seed: int) -> None:
    rng = random.Random(seed)
    tokens = run_of(0, 23)
    engine = Engine(make_cache(num_pages=20, page_size=4))
    running = engine.open(tokens)
    while running.seq.computed_len < 23:
        engine.compute(running, min(rng.randrange(1, 9), 23 - running.seq.computed_len))
        if rng.random() < 0.7:
            running.seq.publish()
        engine.verify()
    engine.close(running)
    assert matched(engine.cache, tokens) == 20
    assert engine.cache.stats.num_nodes == 1


def test_an_answer_of_one_long_append_is_published_as_one_of_many_short_ones() -> None:
    for steps in (1, 20):
        cache = make_cache(num_pages=20, page_size=4)
        seq = begin(cache, A + B[:2])
        for number in range(steps):
            seq.append(run_of(1000 + 20 // steps * number, 20 // steps))
            compute(seq)
            seq.publish()
        seq.close()
        assert matched(cache, [*A, *B[:2], *run_of(1000, 20)]) == 24
