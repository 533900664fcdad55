from dataclasses import replace

import pytest

from radixcache.errors import InvalidConfig
from runtime.cost import CostModel, find_gpu, find_model
from runtime.errors import ModelDoesNotFit
from runtime.result import BASELINE_LABEL, CACHE_LABEL, from_json, to_json
from runtime.simulation import ClosedLoop, Experiment, OpenLoop, Setup, run_experiment
from runtime.workload import Workload
from scheduler import SchedulerConfig
from tests.unit.runtime.simulated import follow_up, small_cost, turn, workload


def experiment(load: Workload, **setup) -> Experiment:
    made = Setup(cost=small_cost(), **{"capacity_tokens": 4096, "page_size": 4, **setup})
    return Experiment(workload=load, workload_config={"generator": "by hand"}, setup=made, seed=9)


def light() -> Workload:
    return workload(*[(10.0 * n, [turn(100 * n, 20, 3)]) for n in range(20)])


def flood() -> Workload:
    """Two thousand tokens of work each, a hundred at nearly the same time."""
    return workload(*[(0.0001 * n, [turn(10_000 * n, 2000, 2)]) for n in range(100)])


def test_the_same_workload_runs_without_a_cache_and_with_one():
    result = run_experiment(experiment(light()))
    assert [run.label for run in result.runs] == [BASELINE_LABEL, CACHE_LABEL]
    assert {len(run.requests) for run in result.runs} == {20}


def test_the_baseline_may_be_left_out():
    result = run_experiment(experiment(light(), baseline=False))
    assert [run.label for run in result.runs] == [CACHE_LABEL]


def test_a_result_says_all_that_is_needed_to_repeat_it():
    result = run_experiment(experiment(light(), pace=OpenLoop(2.0), eviction="slru"))
    assert result.seed == 9
    config = result.config
    assert config["workload"] == {"name": "by hand", "sessions": 20, "requests": 20, "generator": "by hand"}
    assert config["pace"] == {"rate_scale": 2.0}
    assert config["loop"] == "open"
    assert config["cache"] == {
        "num_pages": 1024,
        "page_size": 4,
        "capacity_tokens": 4096,
        "capacity_from": "given",
        "eviction": "slru",
        "partial_reuse": False,
    }
    assert config["scheduler"]["policy"] == "fcfs"
    assert config["cost_model"]["model"] == "Qwen3-0.6B"
    assert {"python", "radixcache", "numpy", "sortedcontainers"} == set(result.versions)
    assert any("simulated" in note for note in result.notes)


def test_a_closed_loop_is_described_by_its_users():
    config = run_experiment(experiment(light(), pace=ClosedLoop(3))).config
    assert (config["pace"], config["loop"]) == ({"users": 3}, "closed")


def test_notes_of_the_workload_are_passed_on():
    load = replace(light(), notes=("made up",))
    assert "made up" in run_experiment(experiment(load)).notes


def test_a_result_survives_its_file():
    result = run_experiment(experiment(light()))
    assert from_json(to_json(result)) == result


def test_the_same_experiment_gives_the_same_bytes():
    assert to_json(run_experiment(experiment(light()))) == to_json(run_experiment(experiment(light())))


def test_every_turn_is_reported_as_progress_for_each_run():
    big = turn(0, 5000, 1)
    load = workload((0.0, [big, follow_up(big, 0, 9000, 3)]), (0.0, [turn(50, 4, 2)]))
    told: dict[str, int] = {}

    def on_progress(label: str, settled: int) -> None:
        told[label] = told.get(label, 0) + settled

    run_experiment(experiment(load), on_progress)
    assert told == {BASELINE_LABEL: 3, CACHE_LABEL: 3}


# Warnings


def test_a_load_that_can_be_served_is_not_warned_of():
    assert run_experiment(experiment(light())).warnings == []


def test_a_load_that_cannot_be_served_is_warned_of_with_factor_and_backlog():
    result = run_experiment(experiment(flood()))
    assert len(result.warnings) == 2
    for run, warning in zip(result.runs, result.warnings, strict=True):
        assert warning.startswith(f"{run.label}: the offered load is {run.offered_load:.2f} times")
        assert f"({run.backlog_at_last_arrival} requests waited when the last one arrived)" in warning
        assert "percentiles then measure the length of the trace" in warning
        assert run.offered_load > 1


def test_users_cannot_overload():
    assert run_experiment(experiment(flood(), pace=ClosedLoop(50))).warnings == []


def test_the_same_load_at_a_lower_rate_is_not_warned_of():
    assert run_experiment(experiment(flood(), pace=OpenLoop(0.0001))).warnings == []


def test_refused_requests_and_turns_never_sent_are_warned_of():
    big = turn(0, 5000, 1)
    load = workload((0.0, [big, follow_up(big, 0, 9000, 3)]), (0.0, [turn(50, 4, 2)]))
    refused, never_sent = run_experiment(experiment(load, baseline=False)).warnings
    assert refused.startswith("radix cache: 1 requests were refused, the first because: request 's0/0'")
    assert refused.endswith("needs KV for 5000 tokens, the pool holds at most 4096")
    assert never_sent == "radix cache: 1 turns were never sent, for want of the answer before"


# The pool


@pytest.mark.parametrize("capacity", [0, 3, -1])
def test_a_capacity_of_no_page_is_refused(capacity):
    with pytest.raises(InvalidConfig, match=f"a capacity of {capacity} tokens holds no page of 4 tokens"):
        experiment(light(), capacity_tokens=capacity).setup.cache_config()


@pytest.mark.parametrize("page_size", [0, -4])
def test_a_page_of_no_token_is_refused(page_size):
    with pytest.raises(InvalidConfig, match=f"page_size is an integer >= 1, got {page_size}"):
        experiment(light(), page_size=page_size).setup.cache_config()


def test_a_capacity_is_cut_to_whole_pages():
    assert experiment(light(), capacity_tokens=103, page_size=16).setup.cache_config().num_pages == 6


def test_without_a_capacity_the_pool_is_what_fits_beside_the_weights():
    cost = small_cost()
    setup = Setup(cost=cost, page_size=16, scheduler=SchedulerConfig(token_budget=2048))
    expected = cost.pool_tokens(memory_fraction=0.9, page_size=16, chunk_tokens=2048) // 16
    assert setup.cache_config().num_pages == expected > 1000


def test_a_model_that_does_not_fit_is_refused():
    setup = Setup(cost=CostModel(model=find_model("Llama-3.1-70B"), gpu=find_gpu("L4")))
    with pytest.raises(ModelDoesNotFit):
        setup.cache_config()


# What was possible


def test_a_run_is_told_what_was_possible_and_one_without_a_cache_is_not():
    again = workload(*[(10.0 * n, [turn(0, 20, 3)]) for n in range(5)])
    baseline, cached = run_experiment(experiment(again)).runs
    assert baseline.bounds is None
    assert cached.bounds.num_requests == 5
    matched = sum(record.matched_tokens for record in cached.requests)
    assert (cached.bounds.of_optimum(matched), cached.bounds.of_ceiling(matched)) == (1.0, 1.0)


def test_it_may_be_left_out():
    assert run_experiment(experiment(light(), bounds=False)).runs[1].bounds is None


def test_a_small_pool_falls_short_of_what_was_possible():
    loop = workload(*[(10.0 * n, [turn(1000 * (n % 3), 60, 1)]) for n in range(12)])
    run = run_experiment(experiment(loop, capacity_tokens=128, baseline=False)).runs[0]
    matched = sum(record.matched_tokens for record in run.requests)
    assert matched < run.bounds.optimum_tokens < run.bounds.ceiling_tokens
