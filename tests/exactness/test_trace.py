"""On real traffic the cache finds, page for page, what one pass over stack distances predicts."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from radixcache import check
from tests.exactness.replay import cache_that_keeps, hit_pages, with_own_token
from tests.oracles.stack_distance import lru_hits

pytestmark = pytest.mark.shared_data

BLOCK = 512
CAPACITIES = (250, 1_000, 1_953, 5_859, 19_531, 40_000)
"""In blocks; the longest request has 246, and from the last on hardly anything is evicted."""


@pytest.fixture(scope="module")
def paths(shared: Path) -> list[list[int]]:
    """The whole blocks of every request."""
    found = []
    with (shared / "data/traces/mooncake_conversation.jsonl").open() as lines:
        for line in lines:
            request = json.loads(line)
            found.append(request["hash_ids"][: request["input_length"] // BLOCK])
    return found


@pytest.fixture(scope="module")
def expected(paths: list[list[int]]) -> dict[int, list[int]]:
    return dict(lru_hits(paths, CAPACITIES))


def prompts(paths: list[list[int]], tokens_per_block: int) -> Iterator[npt.NDArray[np.int32]]:
    offsets = np.arange(tokens_per_block, dtype=np.int32)
    for path in paths:
        blocks = np.array(path, dtype=np.int32)
        yield with_own_token((blocks[:, None] * tokens_per_block + offsets).ravel())


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_hits_of_the_whole_trace_are_those_of_page_lru(
    paths: list[list[int]], expected: dict[int, list[int]], capacity: int
) -> None:
    cache = cache_that_keeps(capacity, BLOCK)
    assert hit_pages(cache, prompts(paths, BLOCK)) == expected[capacity]
    assert cache.pages.evictable == min(capacity, cache.stats.published_pages)
    check(cache)


def test_so_they_are_when_it_is_computed_and_published_in_chunks(
    paths: list[list[int]], expected: dict[int, list[int]]
) -> None:
    cache = cache_that_keeps(5_859, BLOCK)
    assert hit_pages(cache, prompts(paths, BLOCK), chunk=8_000) == expected[5_859]


@pytest.mark.parametrize("capacity_blocks", [250, 1_953])
def test_so_they_are_at_page_size_16(paths: list[list[int]], capacity_blocks: int) -> None:
    pages_per_block = BLOCK // 16
    capacity = capacity_blocks * pages_per_block + 5  # not a whole number of blocks
    cache = cache_that_keeps(capacity, 16)
    wanted = lru_hits(paths, [capacity], pages_per_item=pages_per_block)[capacity]
    assert hit_pages(cache, prompts(paths, BLOCK)) == wanted
    check(cache)
