import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import WorkloadError
from runtime.workload import FRESH_TOKEN_BASE, ArrivalProcess, Bursty, Constant, Poisson
from runtime.workload.draws import Lengths, TokenSource, seeded, zipf_weights

PROCESSES = [
    Poisson(rate_per_s=4.0),
    Constant(rate_per_s=4.0),
    Bursty(rate_per_s=4.0, variation=2.0),
]


@pytest.mark.parametrize("process", PROCESSES)
def test_arrivals_do_not_fall_and_keep_their_rate(process: ArrivalProcess) -> None:
    times = process.start_times(20_000, seeded(0))
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert 20_000 / times[-1] == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("process", PROCESSES)
def test_arrivals_depend_on_the_seed_alone(process: ArrivalProcess) -> None:
    once, again = (process.start_times(50, seeded(7)) for _ in range(2))
    assert (once == again).all()
    assert len(process.start_times(0, seeded(7))) == 0


def test_bursty_gaps_vary_as_told() -> None:
    gaps = np.diff(Bursty(rate_per_s=1.0, variation=3.0).start_times(50_000, seeded(1)))
    assert gaps.std() / gaps.mean() == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_rates_must_be_positive(rate: float) -> None:
    for process in (Poisson, Constant, Bursty):
        with pytest.raises(WorkloadError, match=f"rate_per_s {rate}"):
            process(rate_per_s=rate)
    with pytest.raises(WorkloadError, match=f"variation {rate}"):
        Bursty(rate_per_s=1.0, variation=rate)


@given(st.integers(0, 2**32), st.lists(st.integers(0, 300), max_size=20))
def test_no_token_is_drawn_twice(seed: int, lengths: list[int]) -> None:
    source = TokenSource(seeded(seed))
    drawn = [source.literal(length).tokens() for length in lengths]
    tokens = np.concatenate([np.empty(0, dtype=np.int32), *drawn])
    assert len(np.unique(tokens)) == len(tokens) == sum(lengths)
    if len(tokens):
        assert 0 <= tokens.min() <= tokens.max() < FRESH_TOKEN_BASE


def test_a_source_says_when_it_is_used_up() -> None:
    with pytest.raises(WorkloadError, match="1073741824 distinct tokens"):
        TokenSource(seeded(0)).literal(FRESH_TOKEN_BASE + 1)


def test_lengths_stay_in_their_range_around_the_median() -> None:
    drawn = Lengths(median=100, sigma=1.0, low=50, high=400).draw_many(seeded(0), 10_000)
    assert (drawn.min(), drawn.max()) == (50, 400)
    assert np.median(drawn) == pytest.approx(100, rel=0.05)


def test_lengths_without_spread_are_equal() -> None:
    assert set(Lengths(median=77, sigma=0).draw_many(seeded(0), 9).tolist()) == {77}


@pytest.mark.parametrize("median", [0.5, 5000.0])
def test_a_median_outside_the_range_is_refused(median: float) -> None:
    with pytest.raises(WorkloadError, match=f"median={median}"):
        Lengths(median=median, high=4096)


def test_zipf_falls_with_rank_and_sums_to_one() -> None:
    weights = zipf_weights(5, 1.0)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] / weights[4] == pytest.approx(5)
    assert zipf_weights(4, 0.0).tolist() == [0.25] * 4


@pytest.mark.parametrize(("count", "exponent"), [(0, 1.0), (3, -1.0), (3, float("nan"))])
def test_zipf_out_of_range_is_refused(count: int, exponent: float) -> None:
    with pytest.raises(WorkloadError, match=f"{count} things with exponent {exponent}"):
        zipf_weights(count, exponent)


def test_a_negative_seed_is_named() -> None:
    with pytest.raises(WorkloadError, match="seed -1"):
        seeded(-1)
