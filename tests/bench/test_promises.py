import pytest

from bench.harness.promises import flat, linear, logarithmic, median_point, scaled

SIZES = (1_000.0, 10_000.0, 100_000.0)


def test_median_is_that_of_the_cpu_times():
    assert median_point(7, {"cpu": [3.0, 1.0, 2.0], "wall": [9.0]}) == (7, 2.0)


def test_flat_goes_on_as_the_first_point():
    assert flat([(1, 5.0), (10, 70.0)]) == [(1, 5.0), (10, 5.0)]


def test_logarithm_starts_at_the_first_point():
    line = logarithmic([(size, 6.0) for size in SIZES])
    assert [cost for _, cost in line] == pytest.approx([6.0, 8.0, 10.0])


def test_linear_promise_is_kept_by_what_is_linear_and_left_by_what_is_not():
    is_linear = [(size, 4.0 + 0.25 * size) for size in (1.0, 8.0, 64.0, 512.0, 4_096.0)]
    assert dict(linear(is_linear)) == pytest.approx(dict(is_linear))
    is_square = [(size, 4.0 + 0.25 * size**2) for size, _ in is_linear]
    assert linear(is_square)[-1][1] < is_square[-1][1] / 5


def test_linear_promise_never_falls():
    assert linear([(1, 5.0), (2, 4.0), (4, 3.0)]) == [(1, 5.0), (2, 5.0), (4, 5.0)]
    assert linear([(8, 5.0)]) == [(8, 5.0)]


def test_bound_is_scaled_and_shifted():
    assert scaled([(1, 2.0)], 3.0, 3.0) == [(1, 9.0)]
