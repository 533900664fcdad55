import json
from dataclasses import dataclass, replace

import pytest

from radixcache.errors import InvalidConfig
from runtime.errors import TraceError
from runtime.lab import run_bounds
from runtime.lab.bounds import admission_order
from runtime.lab.cell import CellSpec, run_cell, without_warmup
from runtime.lab.comparison import Comparison, Grid, compare
from runtime.report import render_study
from runtime.report.study_compare import compare_study
from runtime.simulation import Experiment, Setup, run_experiment
from runtime.workload import GENERATORS, Workload
from tests.unit.runtime.sample_result import record, run
from tests.unit.runtime.simulated import small_cost

SETUP = Setup(cost=small_cost(), page_size=16, baseline=False)
GRID = Grid(evictions=("lru", "fifo"), policies=("fcfs", "lpm"), capacities=(8000, 16000), seeds=(3, 4))


@dataclass(frozen=True)
class SmallChat:
    """Twelve conversations; one seed has no workload."""

    num_sessions: int = 12
    broken_seed: int | None = None

    def __call__(self, seed: int) -> Workload:
        if seed == self.broken_seed:
            raise TraceError("trace.jsonl", 7, "is broken")
        return GENERATORS["chat"](num_sessions=self.num_sessions, mean_turns=2.0).generate(seed)


def compared(grid: Grid = GRID, source: SmallChat = SmallChat(), **changes) -> Comparison:
    more = {"config": {"workload": {"name": "chat"}}, "notes": [], "versions": {}, "workers": 2}
    return compare(source, SETUP, grid, **(more | changes))


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compared()


def test_every_combination_is_simulated_once_in_the_order_of_the_grid(found):
    assert [cell.spec for cell in found.cells] == GRID.cells()
    assert len({cell.spec.name for cell in found.cells}) == 2 * 2 * 2 * 2
    assert found.failed == []


def test_a_cell_is_what_simulating_it_alone_says(found):
    cell = found.cells[5]
    assert cell.metrics == run_cell(SmallChat(), SETUP, cell.spec, 0.1)


def test_groups_span_their_seeds(found):
    assert len(found.groups) == 8
    for group in found.groups:
        rates = sorted(
            cell.metrics.hit_rate
            for cell in found.cells
            if (cell.spec.eviction, cell.spec.policy, cell.spec.capacity_tokens)
            == (group.eviction, group.policy, group.capacity_tokens)
        )
        spread = group.metrics["hit_rate"]
        assert (spread.low, spread.high) == (rates[0], rates[-1])
        assert spread.median == pytest.approx(sum(rates) / 2)


def test_the_number_of_processes_changes_no_byte(found):
    assert compared(workers=1).to_json() == found.to_json()
    assert json.loads(found.to_json())["schema"] == "radixcache.comparison"


def test_a_larger_pool_finds_no_less_and_nothing_finds_more_than_the_ceiling(found):
    for small, large in zip(found.groups[::2], found.groups[1::2], strict=True):
        assert small.metrics["hit_rate"].median <= large.metrics["hit_rate"].median
        assert large.metrics["of_ceiling"].high <= 1


def test_a_comparison_becomes_a_page_with_one_row_for_each_group(found):
    study = compare_study(found)
    assert len(study.sheets[0].rows) == 8
    assert all(len(row) == len(study.sheets[0].columns) for row in study.sheets[0].rows)
    assert "hit / optimum" in study.sheets[0].columns
    assert "10.0 %" in study.lead
    assert render_study(study).lstrip().startswith("<!doctype html>")


def test_a_cell_that_fails_is_reported_and_the_rest_goes_on():
    grid = Grid(evictions=("lru",), policies=("fcfs",), capacities=(8000,), seeds=(3, 4))
    found = compared(grid, SmallChat(broken_seed=4), workers=1)
    (failed,) = found.failed
    assert failed.error == "TraceError: trace.jsonl:7: is broken"
    assert found.cells[0].metrics is not None
    assert found.groups[0].num_failed == 1
    study = compare_study(found)
    assert study.sheets[-1].title == "Simulations that failed"
    assert "1 of 2 simulations failed" in study.warnings[0]


def test_seeds_that_change_nothing_are_told():
    cells = compared(Grid(evictions=("lru",), policies=("fcfs",), capacities=(8000,), seeds=(3,)), workers=1)
    assert not cells.seeds_agree
    twice = replace(cells, grid=replace(cells.grid, seeds=(3, 4)))
    assert twice.seeds_agree
    assert any("draws nothing" in note for note in compare_study(twice).notes)


def test_a_workload_that_fits_into_every_pool_is_told():
    grid = Grid(evictions=("lru", "fifo"), policies=("fcfs",), capacities=(400_000, 200_000), seeds=(3,))
    fitting = compared(grid, SmallChat(num_sessions=3), workers=1)
    (warning,) = compare_study(fitting).warnings
    assert "All capacities give the same figures: even that of 200,000 tokens holds all" in warning
    assert "num_sessions" in warning
    unknown = [replace(each, metrics={**each.metrics, "of_ceiling": None}) for each in fitting.groups]
    (warning,) = compare_study(replace(fitting, groups=unknown)).warnings
    assert "All capacities give the same figures. Give" in warning
    alone = compared(replace(grid, capacities=(200_000,)), SmallChat(num_sessions=3), workers=1)
    assert compare_study(alone).warnings == []


def test_capacities_that_differ_are_no_warning(found):
    assert not any("All capacities" in warning for warning in compare_study(found).warnings)


def test_the_warm_up_is_the_first_arrivals_and_time_begins_behind_it():
    requests = [record(request_id=f"r{n}", arrival_s=float(n)) for n in range(10)]
    left = without_warmup(run(requests, makespan_s=30.0), 0.25)
    assert [each.request_id for each in left.requests] == [f"r{n}" for n in range(3, 10)]
    assert left.makespan_s == 27.0
    assert without_warmup(run(requests), 0) == run(requests)


def test_without_a_warm_up_a_cell_has_the_bounds_of_the_whole_run():
    spec = CellSpec(eviction="lru", policy="fcfs", capacity_tokens=8000, seed=3)
    metrics = run_cell(SmallChat(), SETUP, spec, 0.0)
    load = SmallChat()(3)
    whole = Experiment(
        workload=load, workload_config={}, setup=replace(SETUP, capacity_tokens=8000, bounds=False), seed=3
    )
    served = run_experiment(whole).runs[0]
    bounds = run_bounds(load, page_size=16, capacity_tokens=8000, order=admission_order(served.requests))
    matched = sum(each.matched_tokens for each in served.requests)
    assert metrics.of_optimum == bounds.of_optimum(matched)
    assert metrics.of_ceiling == bounds.of_ceiling(matched)


def test_bounds_may_be_left_out():
    spec = CellSpec(eviction="lru", policy="fcfs", capacity_tokens=8000, seed=3)
    metrics = run_cell(SmallChat(), replace(SETUP, bounds=False), spec, 0.1)
    assert (metrics.of_ceiling, metrics.of_optimum, metrics.ceiling_rate) == (None, None, None)


@pytest.mark.parametrize("warmup", [-0.1, 1.0, float("nan")])
def test_a_warm_up_out_of_range_is_refused(warmup):
    with pytest.raises(InvalidConfig, match=f"warm-up .* got {warmup}"):
        compared(warmup=warmup)


@pytest.mark.parametrize("changes", [{"evictions": ()}, {"seeds": (1, 1)}], ids=str)
def test_a_grid_that_is_empty_or_names_something_twice_is_refused(changes):
    with pytest.raises(InvalidConfig, match="at least one and none twice"):
        replace(GRID, **changes)
