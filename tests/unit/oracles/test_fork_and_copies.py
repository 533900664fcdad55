import pytest

from tests.oracles.model import MisuseOracle, OutOfPagesOracle, Prefix
from tests.oracles.page_cache import PageCacheOracle
from tests.oracles.page_lru import PageLruOracle


def computed(oracle: PageCacheOracle, prompt: list[int], *, write: bool = True) -> int:
    handle = oracle.open(prompt, write=write)
    seq = oracle.sequence(handle)
    oracle.reserve(handle, seq.num_tokens - seq.computed_len)
    oracle.take_copies(handle)
    oracle.advance(handle, seq.num_tokens - seq.computed_len)
    return handle


def states(oracle: PageCacheOracle) -> tuple[int, int, int, int]:
    counts = oracle.counts
    return counts.free, counts.private, counts.evictable, counts.locked


def page(*tokens: int) -> Prefix:
    return (None, tokens)


def test_fork_shares_full_pages_and_copies_the_partial_one() -> None:
    oracle = PageLruOracle(8, 2)
    parent = computed(oracle, [1, 1, 2, 2, 3])
    child = oracle.fork(parent)
    assert states(oracle) == (4, 2, 0, 2)
    assert oracle.sequence(child).pages[:2] == oracle.sequence(parent).pages[:2]
    assert oracle.sequence(child).computed_len == 5


def test_fork_at_a_page_boundary_needs_no_page() -> None:
    oracle = PageLruOracle(2, 2)
    child = oracle.fork(computed(oracle, [1, 1, 2, 2]))
    assert oracle.take_copies(child) == []
    assert states(oracle) == (0, 0, 0, 2)


def test_reserved_unwritten_pages_are_not_shared() -> None:
    oracle = PageLruOracle(8, 2)
    parent = computed(oracle, [1, 1])
    oracle.reserve(parent, 4)
    child = oracle.fork(parent)
    assert len(oracle.sequence(child).pages) == 1
    assert states(oracle) == (5, 2, 0, 1)


def test_a_fork_that_runs_out_of_pages_has_not_published() -> None:
    oracle = PageLruOracle(2, 2)
    parent = computed(oracle, [1, 1, 2])
    with pytest.raises(OutOfPagesOracle) as caught:
        oracle.fork(parent)
    assert (caught.value.needed, caught.value.locked) == (1, 1)
    assert states(oracle) == (0, 2, 0, 0)


def test_a_fork_that_runs_out_of_pages_has_not_touched() -> None:
    oracle = PageLruOracle(5, 2)
    oracle.close(computed(oracle, [7, 7]))
    parent = computed(oracle, [7, 7, 1, 1, 2])
    oracle.close(computed(oracle, [8, 8]))
    other = computed(oracle, [8, 8, 9])
    with pytest.raises(OutOfPagesOracle):
        oracle.fork(parent)
    oracle.abort(parent)
    oracle.abort(other)
    oracle.evict(1)
    assert oracle.victims == [page(7, 7)]


def test_fork_can_use_the_page_that_its_publish_freed() -> None:
    oracle = PageLruOracle(4, 2)
    parent = computed(oracle, [1, 1, 2])
    oracle.close(computed(oracle, [1, 1]))
    locker = oracle.open([1, 1, 3])
    oracle.reserve(locker, 1)
    assert states(oracle) == (0, 3, 0, 1)
    oracle.fork(parent)
    assert states(oracle) == (0, 3, 0, 1)


def test_fork_evicts_for_its_copy() -> None:
    oracle = PageLruOracle(3, 2)
    oracle.close(computed(oracle, [7, 7]))
    oracle.fork(computed(oracle, [1, 1, 2]))
    assert oracle.victims == [page(7, 7)]


def test_write_false_copies_every_private_written_page() -> None:
    oracle = PageLruOracle(8, 2)
    oracle.close(computed(oracle, [1, 1]))
    parent = computed(oracle, [1, 1, 2, 2, 3], write=False)
    child = oracle.fork(parent)
    assert [order.num_tokens for order in oracle.take_copies(child)] == [2, 1]
    assert states(oracle) == (3, 4, 0, 1)


@pytest.mark.parametrize("ending", ["advance", "close", "abort"])
def test_the_source_stays_private_until_the_child_moves_on(ending: str) -> None:
    oracle = PageLruOracle(8, 2)
    parent = computed(oracle, [1, 1, 2])
    child = oracle.fork(parent)
    oracle.close(parent)
    assert states(oracle) == (5, 2, 0, 1)
    oracle.take_copies(child)
    assert states(oracle) == (5, 2, 0, 1)
    if ending == "advance":
        oracle.append(child, [2])
        oracle.advance(child, 1)
        assert states(oracle) == (6, 1, 0, 1)
    else:
        oracle.close(child) if ending == "close" else oracle.abort(child)
        assert states(oracle) == (7, 0, 1, 0)


def test_a_source_that_its_owner_published_is_locked_instead() -> None:
    oracle = PageLruOracle(8, 2)
    parent = computed(oracle, [1, 1, 2])
    child = oracle.fork(parent)
    oracle.append(parent, [5])
    oracle.advance(parent, 1)
    oracle.close(parent)
    assert states(oracle) == (5, 1, 0, 2)
    assert oracle.evict(8) == 0
    oracle.abort(child)
    assert states(oracle) == (6, 0, 2, 0)


def test_a_source_that_its_owner_swapped_stays_private() -> None:
    oracle = PageLruOracle(8, 2)
    parent = computed(oracle, [1, 1, 2])
    child = oracle.fork(parent)
    oracle.close(computed(oracle, [1, 1, 2, 5]))
    oracle.append(parent, [5])
    oracle.advance(parent, 1)
    oracle.close(parent)
    assert states(oracle) == (4, 2, 1, 1)
    oracle.abort(child)
    assert states(oracle) == (6, 0, 2, 0)


def test_two_children_keep_one_source() -> None:
    oracle = PageLruOracle(8, 2)
    parent = computed(oracle, [1])
    children = [oracle.fork(parent), oracle.fork(parent)]
    oracle.abort(parent)
    assert states(oracle) == (5, 3, 0, 0)
    oracle.abort(children[0])
    assert states(oracle) == (6, 2, 0, 0)
    oracle.abort(children[1])
    assert states(oracle) == (8, 0, 0, 0)


@pytest.mark.parametrize("verb", ["advance", "fork"])
def test_untaken_copies_stand_in_the_way(verb: str) -> None:
    oracle = PageLruOracle(8, 2)
    child = oracle.fork(computed(oracle, [1]))
    oracle.append(child, [2])
    with pytest.raises(MisuseOracle):
        oracle.advance(child, 1) if verb == "advance" else oracle.fork(child)


def test_a_child_neither_counts_nor_touches_at_its_first_reserve() -> None:
    oracle = PageLruOracle(8, 2)
    oracle.close(computed(oracle, [1, 1]))
    parent = computed(oracle, [1, 1, 2])
    child = oracle.fork(parent)
    oracle.close(computed(oracle, [7, 7]))
    oracle.reserve(child, 4)
    assert oracle.stats.lookups == 3
    oracle.abort(parent)
    oracle.abort(child)
    oracle.evict(1)
    assert oracle.victims == [page(1, 1)]
