"""Reset and new weights: the answer tells the truth, and old content never matches again."""

from collections.abc import Callable

import pytest

from radixcache import PrefixCache, Sequence
from radixcache.errors import CacheBusy
from tests.property.dump import dump
from tests.steps import Engine, begin, compute, make_cache, matched, put, run_of

A, B, C = (run_of(100 * number, 4) for number in (1, 2, 3))


# G01


def test_g01_an_idle_reset_forgets_everything() -> None:
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A + B)
    put(cache, C, "n")
    cache.evict(1)
    cache.reset()
    assert cache.pages == (8, 0, 0, 0, 8)
    for prompt, namespace in ((A + B, None), (C, "n")):
        seq = cache.open([*prompt, 1], namespace)
        assert seq.matched_len == 0
        assert seq.miss is not None
        assert seq.miss.reason == "never_seen"
        seq.abort()


def opened(cache: PrefixCache) -> Sequence:
    return cache.open([*A, 1])


def reserved(cache: PrefixCache) -> Sequence:
    seq = cache.open([*B, 1])
    seq.reserve(5)
    return seq


def computed(cache: PrefixCache) -> Sequence:
    return begin(cache, [*A, *C, 1])


def forked(cache: PrefixCache) -> Sequence:
    parent = begin(cache, [*C, 1])
    child = parent.fork()
    parent.close()
    return child


@pytest.mark.parametrize("make", [opened, reserved, computed, forked])
def test_g01_a_reset_while_anything_lives_is_refused_and_changes_nothing(
    make: Callable[[PrefixCache], Sequence],
) -> None:
    cache = make_cache(num_pages=8, page_size=4)
    put(cache, A + B)
    seq = make(cache)
    before = dump(cache)
    for _ in range(3):
        with pytest.raises(CacheBusy, match="1 sequences live"):
            cache.reset()
    assert dump(cache) == before
    assert matched(cache, A + B) == 8
    seq.abort()
    cache.reset()
    assert matched(cache, A + B) == 0
    assert cache.pages.free == 8


def test_g01_after_a_reset_everything_works_as_new() -> None:
    engine = Engine(make_cache(num_pages=6, page_size=4, partial_reuse=True, max_events=8))
    for epoch in range(4):
        engine.epoch = epoch
        engine.put(A + B)
        running = engine.begin([*A, *B[:2], 9])
        engine.verify()
        engine.close(running)
        engine.cache.reset()
        assert engine.cache.pages.free == 6
        assert engine.cache.events is not None
        assert engine.cache.events.epoch == epoch + 1


@pytest.mark.parametrize("verb", ["close", "abort", "publish", "fork"])
def test_g01_a_sequence_that_ended_before_a_reset_is_dead_after_it(verb: str) -> None:
    cache = make_cache(num_pages=6, page_size=4)
    seq = begin(cache, A)
    seq.close()
    cache.reset()
    put(cache, B)
    with pytest.raises(RuntimeError):
        getattr(seq, verb)()
    assert matched(cache, B) == 4


# G02


def test_g02_with_the_weight_epoch_in_the_namespace_old_pages_are_never_seen() -> None:
    engine = Engine(make_cache(num_pages=12, page_size=4))
    running = engine.begin([*A, *B, 1], ("model", b"\1"))
    running.seq.publish()
    new = engine.begin([*A, *B, 1], ("model", b"\2"))
    assert new.seq.matched_len == 0
    engine.generate(running, 2, 3)
    engine.generate(new, 4, 5)
    engine.verify()
    engine.close(running)
    engine.close(new)
    engine.verify()


def test_g02_retiring_the_old_epoch_frees_its_pages_first() -> None:
    cache = make_cache(num_pages=6, page_size=4)
    put(cache, A, "epoch 2")
    put(cache, A + B + C, "epoch 1")
    assert cache.retire("epoch 1") == 3
    put(cache, [*B, *C], "epoch 2")
    assert (matched(cache, A, "epoch 2"), cache.stats.evictions) == (4, 0)


@pytest.mark.parametrize("ending", ["close", "abort"])
@pytest.mark.parametrize("num_before", range(0, 14, 2))
def test_g02_a_sequence_in_flight_keeps_valid_pages_and_publishes_no_more(
    num_before: int, ending: str
) -> None:
    engine = Engine(make_cache(num_pages=12, page_size=4))
    engine.put(A, "weights")
    running = engine.open([*A, *B, *C, 1, 2], "weights")
    if num_before:
        engine.compute(running, min(num_before, 10))
        running.seq.publish()
    engine.cache.retire("weights")
    engine.epoch = 1
    engine.verify()
    fresh = engine.begin([*A, *B, 1], "weights")
    assert fresh.seq.matched_len == 0
    engine.compute(running)
    engine.generate(running, 3, 4, 5)
    running.seq.publish()
    engine.verify()
    getattr(engine, ending)(running)
    engine.verify()
    assert engine.cache.pages.private == len(fresh.seq.page_table)
    engine.close(fresh)
    again = engine.begin([*A, *B, 1], "weights")
    assert again.seq.matched_len == 8
    engine.verify()


def test_g02_forks_and_copies_of_a_retired_namespace_end_without_a_trace() -> None:
    cache = make_cache(num_pages=12, page_size=4, partial_reuse=True)
    put(cache, A + B, "weights")
    seq = cache.open([*A, *B[:2], 9, 9], "weights")
    offered = seq.partial
    assert offered is not None
    cache.retire("weights")
    seq.reserve(4)
    assert seq.take_copies()[0].source == offered.source_page
    seq.advance(seq.num_tokens - seq.computed_len)
    child = seq.fork()
    seq.close()
    child.close()
    assert cache.pages.free == 12
    assert cache.stats.num_namespaces == 0


def test_g02_retiring_again_and_again_while_the_oldest_still_runs() -> None:
    cache = make_cache(num_pages=20, page_size=4)
    live = []
    for _ in range(4):
        seq = begin(cache, [*A, 1], "weights")
        assert seq.matched_len == 0
        seq.publish()
        live.append(seq)
        cache.retire("weights")
    for seq in live:
        seq.append([2, 3, 4])
        compute(seq).close()
    assert cache.pages.free == 20
    assert cache.stats.num_namespaces == 0
