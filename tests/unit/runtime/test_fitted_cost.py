import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import InvalidArgument, InvalidConfig
from runtime.clock import PS_PER_S
from runtime.cost import FittedCost, StepLoad, fit_nonnegative
from runtime.cost.fitted import FittedCoefficients
from runtime.executor import CostModelExecutor, load_of
from tests.unit.scheduler.loop import Loop, ids

TRUE = FittedCoefficients(
    step=40_000_000_000, token=1_500_000_000, row=300_000_000, prefill_pair=1_400_000, decode_pair=9_000_000
)
LOADS = [
    StepLoad.of([(0, 32, True)]),
    StepLoad.of([(0, 512, True)]),
    StepLoad.of([(512, 512, False)]),
    StepLoad.of([(1024, 256, True)]),
    StepLoad.of_decodes(1, 100),
    StepLoad.of_decodes(1, 2000),
    StepLoad.of_decodes(8, 9000),
    StepLoad.of([(40, 1, True), (900, 1, True), (128, 64, True)]),
]
counts = st.integers(0, 10**6)


def timed(cost: FittedCost, loads: list[StepLoad]) -> list[tuple[StepLoad, int]]:
    return [(load, cost.step_ps(load)) for load in loads]


def test_fit_finds_the_coefficients_that_made_the_times():
    fitted = FittedCost.fit(timed(FittedCost(TRUE), LOADS))
    assert fitted.coefficients == pytest.approx(TRUE, rel=1e-6)
    assert fitted.num_loads == len(LOADS)
    assert fitted.median_error < 1e-9


def test_of_equal_loads_the_median_counts():
    samples = timed(FittedCost(TRUE), LOADS) * 2 + [(LOADS[0], PS_PER_S * 100)]
    assert FittedCost.fit(samples).coefficients == pytest.approx(TRUE, rel=1e-6)


def test_median_error_is_that_of_the_loads():
    times = [
        time if number % 2 else time * 1.5 for number, (_, time) in enumerate(timed(FittedCost(TRUE), LOADS))
    ]
    fitted = FittedCost.fit(zip(LOADS, map(int, times), strict=True))
    errors = [abs(fitted.step_ps(load) / time - 1) for load, time in zip(LOADS, times, strict=True)]
    assert fitted.median_error == pytest.approx(np.median(errors), rel=1e-6)
    assert fitted.median_error > 0.01


def test_step_is_the_sum_of_its_counts():
    load = StepLoad.of([(7, 1, True), (10, 4, False)])
    assert (
        FittedCost(FittedCoefficients(1000, 100, 10, 3, 2)).step_ps(load) == 1000 + 500 + 10 + 3 * 50 + 2 * 8
    )


def test_step_that_computes_nothing_takes_no_time():
    assert FittedCost(TRUE).step_ps(StepLoad.of([])) == 0


@given(st.integers(0, 300), st.integers(0, 9), st.integers(0, 10**5))
def test_decode_run_is_the_sum_of_its_steps(num_steps, num_rows, context):
    cost = FittedCost(TRUE)
    steps = (StepLoad.of_decodes(num_rows, context + number * num_rows) for number in range(num_steps))
    run = cost.decode_run_ps(StepLoad.of_decodes(num_rows, context), num_steps)
    assert run == sum(map(cost.step_ps, steps))


@pytest.mark.parametrize(
    ("load", "num_steps"),
    [(StepLoad.of_decodes(1, 1), -1), (StepLoad.of([(0, 2, True)]), 1), (StepLoad.of([(0, 1, False)]), 1)],
)
def test_what_is_no_decode_run_is_refused(load, num_steps):
    with pytest.raises(InvalidArgument):
        FittedCost(TRUE).decode_run_ps(load, num_steps)


def test_negative_coefficient_is_refused():
    with pytest.raises(InvalidConfig, match="negative"):
        FittedCost(TRUE._replace(row=-1))


def test_too_few_loads_are_refused():
    with pytest.raises(InvalidArgument, match="5 coefficients need as many samples, got 4"):
        FittedCost.fit(timed(FittedCost(TRUE), LOADS[:4]) * 3)


@pytest.mark.parametrize("time", [0.0, -1.0, float("nan"), float("inf")])
def test_time_that_is_none_is_refused(time):
    with pytest.raises(InvalidArgument, match="positive and finite"):
        fit_nonnegative(np.ones((2, 1)), np.array([1.0, time]))


def test_coefficient_that_would_be_negative_is_zero():
    sizes = np.array([1.0, 2.0, 3.0, 4.0])
    found = fit_nonnegative(np.stack([np.ones(4), sizes], axis=1), 10.0 - sizes)
    assert found[1] == 0
    assert 6 < found[0] < 9


def test_count_that_is_always_zero_costs_nothing():
    found = fit_nonnegative(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([3.0, 6.0]))
    assert found.tolist() == [pytest.approx(3.0), 0.0]


@given(st.integers(0, 2**32 - 1))
def test_no_other_coefficients_leave_a_smaller_error(seed):
    rng = np.random.default_rng(seed)
    design = rng.random((12, 4)) * 10.0 ** rng.integers(0, 5, 4)
    times = (design @ (rng.random(4) * rng.integers(0, 2, 4))) * (1 + 0.3 * rng.random(12)) + rng.random(12)
    found = fit_nonnegative(design, times)
    relative = design / times[:, None]
    gradient = relative.T @ (1 - relative @ found) / np.linalg.norm(relative, axis=0)
    assert (found >= 0).all()
    # Karush-Kuhn-Tucker: no descent along any coefficient, none left in those that are not 0
    assert (gradient < 1e-6).all()
    assert (np.abs(gradient[found > 0]) < 1e-6).all()


def test_description_has_every_coefficient():
    described = FittedCost.fit(timed(FittedCost(TRUE), LOADS)).describe()
    assert set(described["coefficients_ps"]) == set(FittedCoefficients._fields)
    assert described["fitted_loads"] == len(LOADS)


def test_simulated_step_takes_what_was_fitted():
    loop, cost = Loop(), FittedCost(TRUE)
    loop.submit("a", ids(0, 30), 2)
    loop.submit("b", ids(50, 7), 2)
    plan = loop.schedule()
    load = load_of(plan)
    assert (load.num_tokens, load.num_rows, load.prefill_pairs, load.decode_pairs) == (37, 2, 465 + 28, 0)
    assert CostModelExecutor(cost).execute(plan).elapsed_ps == cost.step_ps(load)
