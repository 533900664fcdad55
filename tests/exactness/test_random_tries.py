"""On small random tries the cache finds, request by request, what page LRU finds at every capacity."""

import itertools
import random

import numpy as np
import numpy.typing as npt
import pytest

from radixcache import check
from tests.exactness.replay import cache_that_keeps, hit_pages, with_own_token
from tests.oracles.stack_distance import chained, lru_hits, simulated_lru_hits

NUM_TRIES = 2_400
PARTS = 6


def random_paths(rng: random.Random) -> list[list[int]]:
    """Requests of few pages: fresh ones, prefixes of earlier ones, and branches that leave them midway."""
    alphabet, longest = rng.choice((1, 2, 2, 3)), rng.randrange(2, 8)
    paths: list[list[int]] = []
    for _ in range(rng.randrange(5, 30)):
        path = [rng.randrange(alphabet) for _ in range(rng.randrange(1, longest + 1))]
        if paths and rng.random() < 0.6:
            known = rng.choice(paths)
            kept = known[: rng.randrange(1, len(known) + 1)]
            path = kept if rng.random() < 0.4 else (kept + path)[:longest]
        paths.append(path)
    return paths


def prompts(paths: list[list[int]], page_size: int) -> list[npt.NDArray[np.int32]]:
    """Pages that start alike and differ in their last token."""
    found = []
    for path in paths:
        pages = np.zeros((len(path), page_size), dtype=np.int32)
        pages[:, -1] = path
        found.append(with_own_token(pages.ravel()))
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_hits_are_those_of_page_lru_however_it_is_published(part: int) -> None:
    for seed in range(part, NUM_TRIES, PARTS):
        rng = random.Random(seed)
        paths, page_size = random_paths(rng), rng.choice((2, 3, 4))
        longest = max(map(len, paths))
        capacities = sorted({longest, longest + 1, rng.randrange(longest, 3 * longest + 1)})
        expected = lru_hits(chained(paths), capacities)
        for capacity in capacities:
            chunk = rng.choice((None, 1, page_size, 2 * page_size + 1))
            cache = cache_that_keeps(capacity, page_size)
            found = hit_pages(cache, prompts(paths, page_size), chunk=chunk)
            assert found == expected[capacity], f"seed {seed}, capacity {capacity}, chunks of {chunk}"
            check(cache)


def test_the_two_oracles_agree_on_these_tries() -> None:
    for seed in range(200):
        paths = chained(random_paths(random.Random(seed)))
        capacity = max(map(len, paths)) + seed % 4
        assert lru_hits(paths, [capacity])[capacity] == simulated_lru_hits(paths, capacity)


def test_a_larger_cache_never_finds_less() -> None:
    paths = [
        [1, 2, 1],
        [1, 1, 2],
        [1, 1],
        [1, 2, 2, 1],
        [1, 1],
        [1, 2, 1, 2, 2, 2],
        [1, 2, 1],
    ]
    found = [hit_pages(cache_that_keeps(capacity, 2), prompts(paths, 2)) for capacity in range(6, 14)]
    for fewer, more in itertools.pairwise(found):
        assert all(a <= b for a, b in zip(fewer, more, strict=True))
