import json
from typing import Any

import pytest

from radixcache.errors import InvalidConfig
from runtime.lab.planner import Plan, make_plan
from runtime.lab.probe import Limits
from runtime.report import render_study
from runtime.report.study_plan import plan_study
from runtime.simulation import Experiment, OpenLoop, Setup
from runtime.workload import Workload
from tests.unit.runtime.simulated import follow_up, small_cost, turn, workload


def talks(count: int = 30) -> Workload:
    """Conversations of two turns with a common start, one a second."""
    sessions = []
    for number in range(count):
        first = turn(0, 400, 20)
        sessions.append((float(number), [first, follow_up(first, 0, 1000 + 300 * number, 300, 20)]))
    return workload(*sessions)


def planned(load: Workload, more_gib=(), on_progress=lambda *_: None, **changes: Any) -> Plan:
    setup = Setup(cost=small_cost(), page_size=16, capacity_tokens=8192)
    return make_plan(
        Experiment(workload=load, workload_config={}, setup=setup, seed=0),
        **{
            "limits": Limits(ttft_s=0.2, tpot_s=0.05),
            "config": {"workload": {"name": "talks"}},
            "notes": [],
            "versions": {},
            "tolerance": 0.25,
            "more_gib": more_gib,
            "on_progress": on_progress,
            **changes,
        },
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(talks(), more_gib=(0.25, -0.5))


def test_the_answer_holds_and_the_next_step_does_not(plan):
    for pool in plan.pools:
        assert pool.best.holds
        rates = {probe.rate: probe.holds for probe in pool.probes}
        assert not pool.unbounded
        assert rates[min(rate for rate in rates if rate > pool.best.rate)] is False
        assert min(rate for rate in rates if rate > pool.best.rate) == pytest.approx(1.25 * pool.best.rate)


def test_every_probe_is_listed_once_and_numbered_in_order(plan):
    numbers = [probe.number for pool in plan.pools for probe in pool.probes]
    assert numbers == list(range(1, len(numbers) + 1))
    for pool in plan.pools:
        assert len({probe.rate for probe in pool.probes}) == len(pool.probes)
        assert {probe.capacity_tokens for probe in pool.probes} == {pool.capacity_tokens}


def test_other_pools_are_as_much_larger_as_was_said_in_whole_pages(plan):
    first, larger, smaller = plan.pools
    assert first.capacity_tokens == 8192
    assert [pool.more_gib for pool in plan.pools] == [0.0, 0.25, -0.5]
    assert larger.gib - first.gib == pytest.approx(0.25, abs=0.001)
    assert smaller.gib - first.gib == pytest.approx(-0.5, abs=0.002)
    assert all(pool.capacity_tokens % 16 == 0 for pool in plan.pools)


def test_other_pools_are_also_tried_at_the_first_ones_rate(plan):
    assert {pool.same_rate.rate for pool in plan.pools} == {plan.pools[0].best.rate}


def test_each_probe_says_how_far_from_the_optimum_it_was(plan):
    assert all(probe.of_optimum and probe.of_ceiling for pool in plan.pools for probe in pool.probes)


def test_the_same_plan_has_the_same_bytes(plan):
    again = planned(talks(), more_gib=(0.25, -0.5))
    assert again.to_json() == plan.to_json()
    assert json.loads(plan.to_json())["schema"] == "radixcache.plan"


def test_a_plan_becomes_a_page_that_lists_all_probes(plan):
    study = plan_study(plan)
    pools, probes = study.sheets
    assert len(pools.rows) == 3
    assert len(probes.rows) == sum(len(pool.probes) for pool in plan.pools)
    assert all(len(row) == len(sheet.columns) for sheet in study.sheets for row in sheet.rows)
    assert render_study(study).lstrip().startswith("<!doctype html>")


def test_users_are_planned_as_rates_are():
    plan = planned(talks(20), by="users", limits=Limits(ttft_s=0.06, tpot_s=0.05))
    (pool,) = plan.pools
    assert pool.best is None or pool.best.rate in range(1, 21)
    assert {probe.sessions_per_s for probe in pool.probes} == {None}
    assert len(plan_study(plan).figures) == 3


def test_limits_that_hold_nowhere_are_said_to():
    plan = planned(talks(3), more_gib=(0.25,), limits=Limits(ttft_s=1e-9), tolerance=1.0)
    assert [pool.best for pool in plan.pools] == [None, None]
    assert plan_study(plan).facts[0].remark == "the limits hold at no rate that was tried"


def test_limits_that_hold_everywhere_are_warned_of():
    plan = planned(talks(3), limits=Limits(ttft_s=1e6, tpot_s=1e6), tolerance=1.0)
    assert plan.pools[0].unbounded
    assert any("hold even at the highest rate" in warning for warning in plan_study(plan).warnings)


def test_progress_is_told_by_probe():
    told: dict[str, int] = {}

    def on_progress(name: str, settled: int) -> None:
        told[name] = told.get(name, 0) + settled

    plan = planned(talks(5), on_progress=on_progress, limits=Limits(ttft_s=1e6, tpot_s=1e6), tolerance=1.0)
    assert len(told) == len(plan.pools[0].probes)
    assert set(told.values()) == {10}


def test_a_pool_of_no_page_and_a_workload_of_no_request_are_refused():
    with pytest.raises(InvalidConfig, match=r"8,192 tokens and -4 GiB holds no page"):
        planned(talks(3), more_gib=(-4,))
    with pytest.raises(InvalidConfig, match="has no request"):
        planned(workload())


def test_the_pace_of_the_experiment_is_not_used():
    setup = Setup(cost=small_cost(), page_size=16, capacity_tokens=8192, pace=OpenLoop(77.0))
    experiment = Experiment(workload=talks(3), workload_config={}, setup=setup, seed=0)
    plan = make_plan(
        experiment,
        limits=Limits(ttft_s=1e-9),
        config={},
        notes=[],
        versions={},
        tolerance=1.0,
        more_gib=(),
    )
    assert 77.0 not in {probe.rate for probe in plan.pools[0].probes}
