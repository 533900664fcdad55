from collections.abc import Iterator

import pytest

from radixcache import OutOfPages, PageCopy, PrefixCache, check
from tests.property.dump import dump
from tests.steps import Engine, begin, compute, fill, make_cache, matched, put, run_of

A, B, C = run_of(100, 4), run_of(200, 4), run_of(300, 4)


@pytest.fixture
def cache() -> Iterator[PrefixCache]:
    cache = make_cache(num_pages=8, page_size=4)
    yield cache
    check(cache)


@pytest.fixture
def engine(cache: PrefixCache) -> Iterator[Engine]:
    engine = Engine(cache)
    yield engine
    engine.verify()


def test_full_pages_are_shared_and_the_partial_one_is_copied(cache: PrefixCache) -> None:
    parent = begin(cache, [*A, 1, 2])
    child = parent.fork()
    assert child.page_table.tolist()[0] == parent.page_table.tolist()[0]
    target = child.page_table.tolist()[1]
    assert child.take_copies() == [PageCopy(parent.page_table.tolist()[1], target, 2)]
    assert cache.pages == (5, 2, 0, 1, 8)


def test_a_child_knows_what_its_parent_knew(cache: PrefixCache) -> None:
    put(cache, A)
    parent = begin(cache, [*A, 1])
    parent.append([2, 3])
    child = parent.fork()
    assert (child.num_tokens, child.computed_len, child.prompt_len) == (7, 5, 5)
    assert (child.matched_len, child.miss) == (4, parent.miss)


def test_fork_publishes_first(cache: PrefixCache) -> None:
    parent = begin(cache, A + B)
    child = parent.fork()
    assert matched(cache, A + B) == 8
    assert child.take_copies() == []
    assert cache.pages.private == 0


def test_copies_are_handed_out_once(cache: PrefixCache) -> None:
    child = begin(cache, [1]).fork()
    assert len(child.take_copies()) == 1
    assert child.take_copies() == []


def test_reserved_unwritten_pages_are_not_shared(cache: PrefixCache) -> None:
    parent = cache.open(A + B)
    parent.reserve(8)
    parent.advance(4)
    child = parent.fork()
    assert child.reserved_len == 4
    child.reserve(4)
    assert child.page_table.tolist()[1] != parent.page_table.tolist()[1]


def test_an_unpublished_sequence_forks_by_copying_every_private_page(cache: PrefixCache) -> None:
    put(cache, A)
    parent = begin(cache, [*A, *B, 1], write=False)
    child = parent.fork()
    sources, targets = parent.page_table.tolist()[1:], child.page_table.tolist()[1:]
    assert child.take_copies() == [PageCopy(sources[0], targets[0], 4), PageCopy(sources[1], targets[1], 1)]
    child.close()
    parent.close()
    assert matched(cache, A + B) == 4


def test_fork_counts_once(cache: PrefixCache) -> None:
    parent = begin(cache, A)
    child = parent.fork()
    child.append([1])
    compute(child)
    assert (cache.stats.lookups, cache.stats.forks, cache.stats.prompt_tokens) == (1, 1, 4)


def test_a_fork_that_finds_no_page_changes_nothing(cache: PrefixCache) -> None:
    parent = begin(cache, [*A, 1])
    rest = cache.open(run_of(900, 24))
    rest.reserve(24)
    before = dump(cache, without_failed_reserves=True)
    with pytest.raises(OutOfPages) as caught:
        parent.fork()
    assert (caught.value.needed, caught.value.free, caught.value.locked) == (1, 0, 0)
    assert dump(cache, without_failed_reserves=True) == before
    assert cache.stats.failed_reserves == 1


def test_a_fork_without_partial_page_needs_no_page(cache: PrefixCache) -> None:
    parent = begin(cache, A)
    fill(cache)
    child = parent.fork()
    assert child.page_table.tolist() == parent.page_table.tolist()


def test_a_fork_in_a_pool_of_duplicates_uses_the_pages_its_publish_frees(cache: PrefixCache) -> None:
    first, second = begin(cache, A), begin(cache, [*A, 1])
    first.publish()
    rest = cache.open(run_of(900, 20))
    rest.reserve(20)
    assert cache.pages.available == 0
    child = second.fork()
    assert len(child.take_copies()) == 1


def test_what_the_fork_publishes_into_is_no_room_for_the_copy(cache: PrefixCache) -> None:
    put(cache, A)
    second = begin(cache, [*A, 1], read=False)
    rest = cache.open(run_of(900, 20))
    rest.reserve(20)
    assert cache.pages == (0, 7, 1, 0, 8)
    child = second.fork()
    assert cache.pages == (0, 7, 0, 1, 8)
    assert len(child.take_copies()) == 1


@pytest.mark.parametrize("ending", ["close", "abort"])
def test_the_parents_partial_page_stays_until_the_child_took_its_copy(engine: Engine, ending: str) -> None:
    parent = engine.begin([*A, 1, 2])
    child = engine.fork(parent)
    source = parent.seq.page_table.tolist()[1]
    getattr(engine, ending)(parent)
    intruder = engine.begin(run_of(900, 20))
    assert source not in intruder.seq.page_table.tolist()
    engine.copy(child.seq.take_copies())
    engine.generate(child, 7, 8)
    engine.verify()
    assert engine.cache.pages.free == 0 or source not in child.seq.page_table.tolist()


def test_a_parent_that_fills_and_publishes_its_partial_page_leaves_it_for_the_copy(engine: Engine) -> None:
    parent = engine.begin([*A, 1, 2])
    child = engine.fork(parent)
    engine.generate(parent, 3, 4)
    engine.close(parent)
    assert engine.cache.evict(8) == 0
    engine.copy(child.seq.take_copies())
    engine.generate(child, 9, 9)
    engine.verify()
    assert engine.cache.evict(8) > 0


def test_several_children_of_one_partial_page_each_get_a_copy(engine: Engine) -> None:
    parent = engine.begin([1, 2])
    children = [engine.fork(parent) for _ in range(3)]
    engine.close(parent)
    assert engine.cache.pages.private == 4
    for number, child in enumerate(children):
        engine.copy(child.seq.take_copies())
        engine.generate(child, number)
        engine.verify()
    assert engine.cache.pages.private == 3


def test_a_child_that_aborts_before_its_copy_lets_the_page_go(cache: PrefixCache) -> None:
    parent = begin(cache, [1, 2])
    child = parent.fork()
    parent.abort()
    assert cache.pages.private == 2
    child.abort()
    assert cache.pages.free == 8


def test_children_of_children(engine: Engine) -> None:
    parent = engine.begin([*A, 1])
    child = engine.fork(parent)
    engine.copy(child.seq.take_copies())
    grandchild = engine.fork(child)
    engine.close(parent)
    engine.close(child)
    engine.copy(grandchild.seq.take_copies())
    engine.generate(grandchild, *B)
    engine.close(grandchild)
    assert matched(engine.cache, [*A, 1, *B[:3]]) == 8


def test_parent_and_child_go_on_independently(engine: Engine) -> None:
    parent = engine.begin([*A, 1])
    child = engine.fork(parent)
    engine.copy(child.seq.take_copies())
    engine.generate(parent, 11, 12, 13)
    engine.generate(child, 21, 22, 23)
    engine.close(parent)
    engine.close(child)
    assert matched(engine.cache, [*A, 1, 11, 12, 13]) == 8
    assert matched(engine.cache, [*A, 1, 21, 22, 23]) == 8


def test_fork_before_the_first_reserve_shares_the_match(cache: PrefixCache) -> None:
    put(cache, A)
    parent = cache.open(A + B)
    child = parent.fork()
    assert (child.computed_len, child.state) == (4, "active")
    assert cache.stats.lookups == 1
    parent.abort()
    assert cache.evict(1) == 0
    compute(child).close()
    assert matched(cache, A + B) == 8
