import random

import pytest
from hypothesis import given, settings

from tests.oracles.model import OutOfPagesOracle, Prefix, VictimsDisagree
from tests.oracles.page_cache import PageCacheOracle
from tests.oracles.page_lru import PageLruOracle
from tests.oracles.prefix_dict import PrefixDict
from tests.oracles.told_victims import ToldVictimsOracle
from tests.strategies import Open, Verb, World, apply, legal, random_script, scripts


def step(verb: Verb, oracle: PageCacheOracle) -> bool:
    """Apply a legal verb; say whether it ran out of pages."""
    try:
        apply(verb, oracle)
    except OutOfPagesOracle:
        return True
    return False


def everything(oracle: PageCacheOracle) -> tuple[object, ...]:
    return repr(oracle.live), repr(oracle.cached), oracle.stats, oracle.counts


@pytest.mark.parametrize("seed", range(40))
def test_every_legal_verb_works_or_runs_out_of_pages_and_keeps_the_state_sound(seed: int) -> None:
    world, script = random_script(seed, 150)
    oracle = PageLruOracle(world.num_pages, world.page_size, partial_reuse=world.partial_reuse)
    for written in script:
        verb = legal(written, oracle)
        if verb is not None:
            before = everything(oracle)
            has_failed = step(verb, oracle)
            oracle.check()
            assert not has_failed or everything(oracle) == before


@settings(max_examples=60, deadline=None)
@given(scripts())
def test_shrinkable_scripts_keep_the_state_sound(drawn: tuple[World, list[Verb]]) -> None:
    world, script = drawn
    oracle = PageLruOracle(world.num_pages, world.page_size, partial_reuse=world.partial_reuse)
    for written in script:
        verb = legal(written, oracle)
        if verb is not None:
            step(verb, oracle)
            oracle.check()


@pytest.mark.parametrize("seed", range(20))
def test_an_oracle_told_the_victims_of_lru_ends_up_the_same(seed: int) -> None:
    world, script = random_script(seed, 150)
    lru = PageLruOracle(world.num_pages, world.page_size, partial_reuse=world.partial_reuse)
    told = ToldVictimsOracle(world.num_pages, world.page_size, partial_reuse=world.partial_reuse)
    for written in script:
        verb = legal(written, lru)
        if verb is not None:
            has_failed = step(verb, lru)
            told.tell(random.Random(seed).sample(lru.victims, len(lru.victims)))
            assert step(verb, told) is has_failed
            told.settle()
            assert everything(told) == everything(lru)


@pytest.mark.parametrize("seed", range(20))
def test_the_dictionary_of_prefixes_follows_what_is_stored_and_removed(seed: int) -> None:
    world, script = random_script(seed, 150)
    oracle = PageLruOracle(world.num_pages, world.page_size)
    index = PrefixDict(world.page_size)
    for written in script:
        verb = legal(written, oracle)
        if verb is None:
            continue
        before = set(oracle.cached)
        if isinstance(verb, Open):
            found = index.matched_len(verb.prompt, namespace=verb.namespace)
            assert found == oracle.peek(verb.prompt, namespace=verb.namespace)
        step(verb, oracle)
        # A fork stores before it evicts; what it stored is locked, so it is not among the victims.
        stored = sorted(oracle.cached.keys() - before, key=lambda prefix: len(prefix[1]))
        index.store(stored)
        index.remove(oracle.victims)
        assert index.cached == oracle.cached.keys()


def test_scripts_reach_shortage_forks_swaps_and_offers() -> None:
    shortages = evicted = copies = hits = 0
    for seed in range(60):
        world, script = random_script(seed, 150)
        oracle = PageLruOracle(world.num_pages, world.page_size, partial_reuse=world.partial_reuse)
        for written in script:
            verb = legal(written, oracle)
            if verb is not None:
                shortages += step(verb, oracle)
                copies += sum(len(seq.copies) for seq in oracle.live.values())
        evicted += oracle.stats.evicted_pages
        hits += oracle.stats.matched_tokens > 0
    assert min(shortages, evicted, copies) > 200
    assert hits > 40


def filled() -> tuple[ToldVictimsOracle, Prefix, Prefix]:
    oracle = ToldVictimsOracle(2, 2)
    handle = oracle.open([1, 1, 2, 2])
    oracle.reserve(handle, 4)
    oracle.advance(handle, 4)
    oracle.close(handle)
    return oracle, (None, (1, 1)), (None, (1, 1, 2, 2))


def test_a_victim_with_cached_children_is_refused() -> None:
    oracle, parent, _ = filled()
    oracle.tell([parent])
    with pytest.raises(VictimsDisagree, match="no evictable leaf"):
        oracle.evict(1)


def test_a_locked_victim_is_refused() -> None:
    oracle, parent, child = filled()
    oracle.open([1, 1, 2, 2, 3])
    oracle.tell([child, parent])
    assert oracle.evict(2) == 0
    with pytest.raises(VictimsDisagree, match="evicted without need"):
        oracle.settle()


def test_too_few_victims_are_refused() -> None:
    oracle, _, child = filled()
    oracle.tell([child])
    with pytest.raises(VictimsDisagree, match="no evictable leaf"):
        oracle.evict(2)


def test_a_victim_that_was_not_cached_is_refused() -> None:
    oracle, _, child = filled()
    with pytest.raises(VictimsDisagree, match="not cached"):
        oracle.tell([child, child])


def test_an_open_verb_hands_on_the_source_that_the_product_chose() -> None:
    oracle = PageLruOracle(8, 2, partial_reuse=True)
    for prompt in ([1, 1], [1, 2]):
        handle = oracle.open(prompt, read=False)
        oracle.reserve(handle, 2)
        oracle.advance(handle, 2)
        oracle.close(handle)
    chosen: Prefix = (None, (1, 2))
    opened = apply(Open((1, 3), source=chosen), oracle)
    assert opened is not None
    offer = oracle.sequence(opened).offer
    assert offer is not None
    assert offer.source == chosen
