import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import RadixCacheError
from runtime.cost import find_model
from runtime.lab import CapacityCurve, PageTrace, TraceBuilder, kv_gib, lru_curve
from tests.oracles.stack_distance import chained, lru_hits

tries = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=12)


def trace_of(
    paths: list[list[int]],
    unmatched: list[int] | None = None,
    private: list[int] | None = None,
    page_size: int = 1,
) -> PageTrace:
    builder = TraceBuilder(page_size)
    for number, path in enumerate(paths):
        builder.add(
            b"",
            np.array(path, dtype=np.int32),
            prompt_tokens=len(path) * page_size,
            match_pages=max(0, len(path) - (unmatched[number] if unmatched else 0)),
            used_pages=len(path) + (private[number] if private else 0),
        )
    return builder.build()


def listed_hits(paths: list[list[int]], trace: PageTrace, capacity: int) -> list[int]:
    """Hits of a cache that is a list, most recent page first, and evicts its last unmatched page."""
    cached: list[int] = []
    hits = []
    for number, path in enumerate(paths):
        matched: list[int] = []
        for page in path[: int(trace.match_pages[number])]:
            if page not in cached:
                break
            matched.append(page)
        hits.append(len(matched))
        needed = int(trace.used_pages[number]) - len(matched)
        while capacity - len(cached) < needed:
            cached.remove(next(page for page in reversed(cached) if page not in matched))
        cached = [*path, *(page for page in cached if page not in path)]
    return hits


def example() -> CapacityCurve:
    # The last three requests find A at distance 2, AB at 3; C at 3; A at 2.
    return lru_curve(trace_of([[1, 2], [3], [1, 2], [3], [1]], page_size=4))


@given(tries)
def test_hits_of_every_request_are_those_of_the_stack_distances(paths: list[list[int]]) -> None:
    curve = lru_curve(trace_of(paths))
    longest = max(map(len, paths))
    for capacity, expected in lru_hits(chained(paths), range(longest, longest + 12)).items():
        assert curve.hits_by_request(capacity).tolist() == expected


@pytest.mark.parametrize("part", range(4))
def test_pages_that_are_needed_beside_the_path_push_others_out(part: int) -> None:
    for seed in range(part, 3_000, 4):
        rng = random.Random(seed)
        written: list[list[int]] = []
        for _ in range(rng.randrange(3, 16)):
            path = [rng.randrange(2) for _ in range(rng.randrange(1, 5))]
            if written and rng.random() < 0.7:
                known = rng.choice(written)
                path = known[: rng.randrange(1, len(known) + 1)] + path[: rng.randrange(2)]
            written.append(path)
        unmatched = [rng.choice((0, 0, 1, 2)) for _ in written]
        private = [rng.choice((0, 0, 1, 3)) for _ in written]
        trace, paths = trace_of(written, unmatched, private), chained(written)
        curve = lru_curve(trace)
        for capacity in range(trace.max_used_pages, trace.max_used_pages + 5):
            assert curve.hits_by_request(capacity).tolist() == listed_hits(paths, trace, capacity), seed


def test_hits_of_a_hand_computed_trace() -> None:
    curve = example()
    assert curve.hit_tokens([8, 11, 12, 16]).tolist() == [8, 8, 16, 16]
    assert curve.ceiling_rate == 16 / 28
    assert (curve.min_capacity_tokens, curve.full_capacity_tokens) == (8, 12)


def test_one_capacity_gives_one_number() -> None:
    assert int(example().hit_tokens(12)) == 16
    assert float(example().hit_rate(12)) == 16 / 28


def test_the_sum_over_requests_is_the_hits_of_all() -> None:
    curve = example()
    for capacity in range(8, 20):
        assert int(curve.hits_by_request(capacity).sum()) * 4 == int(curve.hit_tokens(capacity))


@given(tries, st.floats(0.01, 1.0))
def test_the_capacity_for_a_share_is_the_least_that_reaches_it(paths: list[list[int]], share: float) -> None:
    curve = lru_curve(trace_of(paths, page_size=2))
    capacity = curve.capacity_for(share)
    assert int(curve.hit_tokens(capacity)) >= share * curve.ceiling_pages * 2
    if capacity > curve.min_capacity_tokens:
        assert int(curve.hit_tokens(capacity - 2)) < share * curve.ceiling_pages * 2


def test_points_lead_from_the_longest_request_to_the_ceiling() -> None:
    points = example().points(10)
    assert points[0] == (8, 8 / 28)
    assert points[-1] == (12, 16 / 28)
    assert points == sorted(set(points))


def test_nothing_is_found_in_nothing() -> None:
    curve = lru_curve(TraceBuilder(16).build())
    assert curve.ceiling_rate == 0.0
    assert curve.hit_tokens([0, 16, 160]).tolist() == [0, 0, 0]
    assert curve.capacity_for(0.9) == 0
    assert curve.hits_by_request(0).tolist() == []
    assert curve.points() == [(16, 0.0)]


def test_a_capacity_below_the_longest_request_is_refused() -> None:
    with pytest.raises(RadixCacheError, match=r"capacity of 7 tokens is less .* needs: 8 tokens"):
        example().hit_tokens([12, 7])
    with pytest.raises(ValueError, match="capacity of 7 tokens"):
        example().hits_by_request(7)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.01, float("nan")])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        example().capacity_for(share)


def test_gib_of_a_model() -> None:
    shape = find_model("Llama-3.1-8B")
    assert kv_gib(8_192, shape, "bf16") == pytest.approx(1.0)
    assert kv_gib(8_192, shape, "fp8") == pytest.approx(0.5)
