"""A known batch, one request at a time: every shared page is computed once, whatever is evicted."""

import random

import pytest

from radixcache import EVICTION_POLICIES, CacheConfig, PrefixCache
from scheduler import QUEUE_POLICIES, PolicyOptions, Request
from tests.unit.scheduler.loop import Loop, ids

NUM_TRIES = 500
PAGE_SIZE = 2

Path = tuple[int, ...]


def random_trie(rng: random.Random) -> list[Path]:
    alphabet, longest = rng.choice((2, 2, 3)), rng.randrange(2, 6)
    paths: list[Path] = []
    for _ in range(rng.randrange(3, 10)):
        known = rng.choice(paths)[: rng.randrange(longest + 1)] if paths and rng.random() < 0.6 else ()
        fresh = [rng.randrange(alphabet) for _ in range(rng.randrange(longest + 1 - len(known)))]
        paths.append((*known, *fresh))
    return paths


def distinct_pages(paths: list[Path]) -> int:
    return len({path[:depth] for path in paths for depth in range(1, len(path) + 1)})


def computed_by(policy: str, paths: list[Path], eviction: str) -> int:
    """Tokens computed in the pool of the longest request; each path is pages and one token of its own."""
    longest = max(map(len, paths))
    cache = PrefixCache(CacheConfig(num_pages=longest + 1, page_size=PAGE_SIZE, eviction=eviction))
    queue = QUEUE_POLICIES[policy](cache, PolicyOptions())
    for number, path in enumerate(paths):
        request = Request.of(f"r{number}", [*(name for name in path for _ in range(PAGE_SIZE)), 9], 1)
        request.number, request.submitted_at = number, 0.0
        queue.add(request)
    computed = 0
    while (request := queue.head(0.0)) is not None:
        sequence = cache.open(request.prompt)
        left = sequence.num_tokens - sequence.matched_len
        queue.admitted(request, left)
        sequence.reserve(left)
        sequence.advance(left)
        sequence.close()
        computed += left
    assert not len(queue)
    return computed


@pytest.mark.parametrize("eviction", sorted(EVICTION_POLICIES))
@pytest.mark.parametrize("policy", ["dfs", "lpm"])
def test_every_shared_page_is_computed_once(policy, eviction):
    for seed in range(NUM_TRIES):
        paths = random_trie(random.Random(seed))
        assert computed_by(policy, paths, eviction) == distinct_pages(paths) * PAGE_SIZE + len(paths), seed


def test_the_batches_would_cost_more_in_order_of_arrival():
    tries = [random_trie(random.Random(seed)) for seed in range(100)]
    fcfs, dfs = (sum(computed_by(policy, trie, "lru") for trie in tries) for policy in ("fcfs", "dfs"))
    assert fcfs > 1.05 * dfs


@pytest.mark.parametrize("policy", ["dfs", "lpm"])
@pytest.mark.parametrize("share_in_flight", [True, False])
def test_the_scheduler_computes_them_once_too(policy, share_in_flight):
    for seed in range(25):
        paths = random_trie(random.Random(seed))
        loop = Loop(
            max(map(len, paths)) + 1,
            PAGE_SIZE,
            policy=policy,
            max_running=1,
            share_in_flight=share_in_flight,
        )
        requests = [
            loop.submit(f"r{number}", [*(name for name in path for _ in range(PAGE_SIZE)), 9], 1)
            for number, path in enumerate(paths)
        ]
        loop.run()
        computed = sum(request.prefill_tokens for request in requests)
        assert computed == distinct_pages(paths) * PAGE_SIZE + len(paths)


def order_of(loop: Loop) -> list[str]:
    return [plan.rows[0].request.request_id for plan in loop.run() if plan.rows]


def test_the_heaviest_subtree_comes_first_and_is_finished_before_the_next():
    loop = Loop(100, 4, policy="dfs", max_running=1)
    light, heavy = ids(0, 8), ids(100, 8)
    loop.submit("light", [*light, 1], 1)
    for number in range(3):
        loop.submit(f"heavy{number}", [*heavy, *ids(1000 + 10 * number, 5)], 1)
    loop.submit("light too", [*light, 2], 1)
    assert order_of(loop) == ["heavy0", "heavy1", "heavy2", "light", "light too"]


def test_weights_follow_those_who_leave_and_come():
    loop = Loop(100, 4, policy="dfs", max_running=1)
    for number in range(3):
        loop.submit(f"a{number}", [*ids(0, 8), *ids(1000 + 10 * number, 5)], 1)
    loop.submit("b0", [*ids(100, 8), 1], 1)
    loop.submit("b1", [*ids(100, 8), 2], 1)
    loop.abort("a1")
    loop.abort("a2")
    assert order_of(loop) == ["b0", "b1", "a0"]


def test_of_two_cached_prefixes_as_deep_one_is_finished_before_the_other():
    loop = Loop(100, 4, policy="dfs", max_running=1)
    loop.warm(ids(0, 8))
    loop.warm(ids(100, 8))
    for number in range(4):
        loop.submit(f"a{number}", [*ids(0, 8), *ids(1000 + 10 * number, 5)], 1)
        loop.submit(f"b{number}", [*ids(100, 8), *ids(2000 + 10 * number, 5)], 1)
    loop.abort("b3")
    assert order_of(loop) == ["b0", "b1", "b2", "a0", "a1", "a2", "a3"]
