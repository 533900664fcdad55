import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.page_lru import PageLruOracle
from tests.oracles.stack_distance import (
    chained,
    lru_hits,
    naive_lru_hits,
    simulated_lru_hits,
    stack_distances,
)

tries = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12)


def random_paths(seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    paths: list[list[int]] = []
    for _ in range(rng.randint(2, 14)):
        if paths and rng.random() < 0.5:
            path = list(rng.choice(paths))
            path = path[: rng.randint(1, len(path))]
        else:
            path = []
        path += [rng.randint(0, 2) for _ in range(rng.randint(not path, 3))]
        paths.append(path)
    return chained(paths)


def test_distances_of_a_hand_computed_trace() -> None:
    # Stacks before the last four, most recent first: A AB | C A AB | A C AB | A AB C.
    paths = [["A", "AB"], ["C"], ["A"], ["A", "AB"], ["C"]]
    assert list(stack_distances(paths)) == [[None, None], [None], [1], [0, 2], [2]]


def test_all_pages_of_a_request_are_looked_up_before_one_is_touched() -> None:
    # Touching the tail first would push the root from distance 1 to 2.
    paths = [["A", "AB"], ["C"], ["A", "AB"]]
    assert list(stack_distances(paths))[-1] == [1, 2]


def test_hits_of_a_hand_computed_trace() -> None:
    paths = [["A", "AB"], ["C"], ["A", "AB"], ["D", "DE"], ["A", "AB"], ["C"]]
    assert lru_hits(paths, [2, 3, 4, 5]) == {
        2: [0, 0, 1, 0, 0, 0],
        3: [0, 0, 2, 0, 1, 0],
        4: [0, 0, 2, 0, 2, 0],
        5: [0, 0, 2, 0, 2, 1],
    }


def test_a_trace_on_which_node_eviction_loses_hits_with_more_room_loses_none_here() -> None:
    # Evicting whole nodes gives 0, 2, 2, 1, 1, 3 hits at these capacities.
    paths = [
        ["12", "121", "1212", "12122", "121222"],
        ["11", "111", "1112"],
        ["12", "122", "1221"],
        ["11", "111"],
    ]
    assert [sum(hits) for hits in lru_hits(paths, range(5, 11)).values()] == [3] * 6


def test_chained_tells_equal_pages_behind_different_prefixes_apart() -> None:
    assert chained([[7, 7], [8, 7], [7, 7, 7]]) == [[0, 1], [2, 3], [0, 1, 4]]


@pytest.mark.parametrize("seed", range(0, 3000, 100))
def test_one_pass_equals_the_list_and_the_simulated_cache_on_random_tries(seed: int) -> None:
    for number in range(seed, seed + 100):
        paths = random_paths(number)
        longest = max(map(len, paths))
        capacities = range(longest, longest + 12)
        for capacity, hits in lru_hits(paths, capacities).items():
            assert hits == naive_lru_hits(paths, capacity), number
            assert hits == simulated_lru_hits(paths, capacity), number


@given(tries, st.integers(0, 8))
def test_one_pass_equals_the_simulated_cache(written: list[list[int]], spare: int) -> None:
    paths = chained(written)
    capacity = max(map(len, paths)) + spare
    assert lru_hits(paths, [capacity])[capacity] == simulated_lru_hits(paths, capacity)


@given(tries, st.integers(0, 12), st.sampled_from((2, 3, 8)))
def test_items_of_several_pages_equal_their_pages_one_by_one(
    written: list[list[int]], spare: int, pages_per_item: int
) -> None:
    paths = chained(written)
    split = [[(item, k) for item in path for k in range(pages_per_item)] for path in paths]
    capacity = max(map(len, split)) + spare
    whole = lru_hits(paths, [capacity], pages_per_item=pages_per_item)
    assert whole[capacity] == lru_hits(split, [capacity])[capacity]


@pytest.mark.parametrize("page_size", [2, 4])
@pytest.mark.parametrize("seed", range(60))
def test_sequential_replay_on_the_concurrent_oracle_hits_the_same_pages(seed: int, page_size: int) -> None:
    paths = random_paths(seed)
    longest = max(map(len, paths))
    for capacity, expected in lru_hits(paths, range(longest, longest + 6)).items():
        oracle = PageLruOracle(capacity + 1, page_size)
        found = []
        for path in paths:
            prompt = [page * page_size + k for page in path for k in range(page_size)]
            handle = oracle.open([*prompt, -1])
            found.append(oracle.sequence(handle).matched_len // page_size)
            extend_len = len(prompt) + 1 - oracle.sequence(handle).matched_len
            oracle.reserve(handle, extend_len)
            oracle.advance(handle, extend_len)
            oracle.close(handle)
        assert found == expected


def test_no_requests_hit_nothing() -> None:
    assert lru_hits([], [4]) == {4: []}


def test_a_capacity_below_the_longest_request_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity 2 < longest request of 3 pages"):
        lru_hits([[1, 2, 3]], [2])


def test_an_item_twice_in_a_path_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        list(stack_distances([[1, 1]]))
