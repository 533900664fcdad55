"""The clairvoyant optimum against every possible choice of what to evict, and against published figures."""

import itertools
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from runtime.lab import (
    PageTrace,
    TraceBuilder,
    any_order_tokens,
    lru_curve,
    optimal_hits,
    optimum_tokens,
    page_trace,
)
from runtime.workload import Blocks, load_trace
from tests.oracles.stack_distance import chained

NUM_TRIES = 2_400
PARTS = 6

CONVERSATION = [
    (1_000, ".0445", ".1792"),
    (1_953, ".0533", ".2468"),
    (5_859, ".1361", ".3516"),
    (19_531, ".2852", ".3664"),
    (40_000, ".3514", ".3664"),
    (97_656, ".3635", ".3664"),
]
"""Capacity in blocks; hit rates of LRU and of the optimum, where every block is a page and all may hit."""


def random_paths(rng: random.Random) -> list[list[int]]:
    alphabet, longest = rng.choice((1, 2, 2, 3)), rng.randrange(1, 5)
    paths: list[list[int]] = []
    for _ in range(rng.randrange(2, 9)):
        path = [rng.randrange(alphabet) for _ in range(rng.randrange(1, longest + 1))]
        if paths and rng.random() < 0.5:
            known = rng.choice(paths)
            kept = known[: rng.randrange(1, len(known) + 1)]
            path = kept if rng.random() < 0.4 else (kept + path)[:longest]
        paths.append(path)
    return paths


def page_trace_of(paths: list[list[int]], unmatched: list[int], private: list[int]) -> PageTrace:
    builder = TraceBuilder(1)
    for path, tail, extra in zip(paths, unmatched, private, strict=True):
        builder.add(
            b"",
            np.array(path, dtype=np.int32),
            prompt_tokens=len(path) + 1,
            match_pages=len(path) - tail,
            used_pages=len(path) + extra,
        )
    return builder.build()


def best_of_all(
    paths: list[list[int]], unmatched: list[int], private: list[int], capacity: int, *, closed: bool
) -> int:
    """Most pages that can be found, trying every set of pages to keep; `closed`: only whole prefixes."""
    parents = {page: parent for path in paths for parent, page in itertools.pairwise([-1, *path])}

    @cache
    def best(number: int, cached: frozenset[int]) -> int:
        if number == len(paths):
            return 0
        path = paths[number]
        hits = 0
        for page in path[: len(path) - unmatched[number]]:
            if page in cached:
                hits += 1
            elif closed:
                break
        others = sorted(cached.difference(path))
        room = min(len(others), capacity - len(path) - private[number])
        choices = [
            frozenset(kept).union(path)
            for size in ((range(room + 1)) if closed else (room,))
            for kept in itertools.combinations(others, size)
        ]
        if closed:
            choices = [kept for kept in choices if all(parents[page] in {-1, *kept} for page in kept)]
        return hits + max(best(number + 1, kept) for kept in choices)

    return best(0, frozenset())


@pytest.mark.parametrize("part", range(PARTS))
def test_no_choice_of_victims_finds_more_and_prefixes_cost_nothing(part: int) -> None:
    for seed in range(part, NUM_TRIES, PARTS):
        rng = random.Random(seed)
        written = random_paths(rng)
        paths, none = chained(written), [0] * len(written)
        private = [rng.choice((0, 0, 1)) for _ in written]
        trace = page_trace_of(written, none, private)
        least = trace.max_used_pages
        capacity = rng.randrange(least, least + 4)
        found = optimum_tokens(trace, capacity)
        assert found == best_of_all(paths, none, private, capacity, closed=False), seed
        assert found == best_of_all(paths, none, private, capacity, closed=True), seed


def test_pages_that_are_computed_though_known_cost_at_most_themselves() -> None:
    for seed in range(600):
        rng = random.Random(seed)
        written = random_paths(rng)
        unmatched = [rng.choice((0, 1)) for _ in written]
        private = [0] * len(written)
        trace = page_trace_of(written, unmatched, private)
        capacity = rng.randrange(trace.max_used_pages, trace.max_used_pages + 4)
        found = optimum_tokens(trace, capacity)
        true = best_of_all(chained(written), unmatched, private, capacity, closed=True)
        assert true - trace.num_unmatched <= found <= true, seed


def test_it_is_nowhere_below_lru_and_nowhere_above_the_ceiling() -> None:
    for seed in range(300):
        written = random_paths(random.Random(seed))
        none = [0] * len(written)
        trace = page_trace_of(written, none, none)
        curve = lru_curve(trace)
        for capacity in range(trace.max_used_pages, trace.num_distinct + 2):
            found = optimum_tokens(trace, capacity)
            assert int(curve.hit_tokens(capacity)) <= found <= trace.ceiling_pages
        assert optimum_tokens(trace, max(trace.num_distinct, trace.max_used_pages)) == trace.ceiling_pages


def test_depth_first_order_reaches_the_bound_of_all_orders_in_the_room_of_one_request() -> None:
    for seed in range(300):
        written = random_paths(random.Random(seed))
        none = [0] * len(written)
        trace = page_trace_of(sorted(written), none, none)
        bound = any_order_tokens(page_trace_of(written, none, none))
        pages = {tuple(path[:depth]) for path in written for depth in range(1, len(path) + 1)}
        assert bound == sum(map(len, written)) - len(pages)
        assert optimum_tokens(trace, trace.max_used_pages) == bound
        assert int(lru_curve(trace).hit_tokens(trace.max_used_pages)) == bound


@pytest.mark.shared_data
def test_the_conversation_trace_gives_the_known_table(shared: Path) -> None:
    workload = load_trace(shared / "data" / "traces" / "mooncake_conversation.jsonl")
    builder = TraceBuilder(1)
    for session in workload.sessions:
        (blocks,) = session.turns[0].segments
        assert isinstance(blocks, Blocks)
        size = len(blocks.block_ids)
        builder.add(b"", blocks.block_ids, prompt_tokens=size, match_pages=size, used_pages=size)
    trace = builder.build()
    curve = lru_curve(trace)
    found = [
        (
            capacity,
            f"{float(curve.hit_rate(capacity)):.4f}"[1:],
            f"{optimum_tokens(trace, capacity) / curve.prompt_tokens:.4f}"[1:],
        )
        for capacity, _, _ in CONVERSATION
    ]
    assert found == CONVERSATION
    assert f"{curve.ceiling_rate:.4f}" == "0.3664"
    assert curve.capacity_for(0.95) == pytest.approx(38_000, rel=0.02)
    wanted = 0.95 * trace.ceiling_pages
    assert optimum_tokens(trace, 5_500) < wanted < optimum_tokens(trace, 5_700)


@pytest.mark.shared_data
def test_on_the_conversation_trace_it_lies_between_lru_and_the_ceiling(shared: Path) -> None:
    trace = page_trace(
        load_trace(shared / "data" / "traces" / "mooncake_conversation.jsonl"), page_size=512, outputs=False
    )
    curve = lru_curve(trace)
    for capacity in (curve.min_capacity_tokens, 500_000, 1_000_000, 3_000_000, 10_000_000, 50_000_000):
        hits = optimal_hits(trace, capacity)
        assert int(curve.hit_tokens(capacity)) <= int(hits.sum()) * 512 <= trace.ceiling_pages * 512
        assert (hits <= trace.match_pages).all()
