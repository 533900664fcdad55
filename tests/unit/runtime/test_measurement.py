from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from radixcache import CacheConfig
from runtime.executor import StepOutput
from runtime.result import BASELINE_LABEL, CACHE_LABEL, Bounds
from runtime.simulation import ClosedLoop, Measurement, run_measurement
from runtime.workload import Workload
from scheduler import StepPlan
from tests.unit.runtime.simulated import follow_up, simulate, turn, workload

SECOND_PS = 10**12


class Parrot:
    """Each token takes a second, and the answer is always the same token."""

    def __init__(self) -> None:
        self.plans: list[StepPlan] = []

    def execute(self, plan: StepPlan) -> StepOutput:
        self.plans.append(plan)
        tokens = {row.request.request_id: [7] for row in plan.rows if row.max_tokens}
        return StepOutput(tokens, plan.num_tokens * SECOND_PS)


class ParrotMachine:
    vocab = 100
    max_context = 64

    def __init__(self) -> None:
        self.made: list[tuple[CacheConfig, Parrot]] = []

    def executor(self, config: CacheConfig) -> Parrot:
        self.made.append((config, Parrot()))
        return self.made[-1][1]

    def describe(self) -> dict[str, Any]:
        return {"device": "parrot"}

    def versions(self) -> Mapping[str, str]:
        return {"parrot": "1.0"}


def measurement(load: Workload, **more: Any) -> Measurement:
    cache = CacheConfig(num_pages=32, page_size=4)
    return Measurement(workload=load, workload_config={"from": "here"}, cache=cache, **more)


def two_users() -> Workload:
    """Two users ask the same, and get the same; only then do they differ."""
    first = turn(0, 9, 4)
    return workload(
        (0.0, [first, follow_up(first, 0, 20, 9, 4)]), (50.0, [first, follow_up(first, 0, 40, 9, 4)])
    )


def test_time_passes_by_what_steps_take() -> None:
    result = run_measurement(measurement(workload((0.0, [turn(0, 9, 3)]))), ParrotMachine())
    for run in result.runs:
        (record,) = run.requests
        assert (record.first_token_s, record.finished_s, run.makespan_s) == (9.0, 11.0, 11.0)


def test_both_runs_are_made_with_an_executor_of_their_own_after_one_that_does_not_count() -> None:
    machine, told = ParrotMachine(), []
    result = run_measurement(measurement(two_users()), machine, lambda *each: told.append(each))
    assert [run.label for run in result.runs] == [BASELINE_LABEL, CACHE_LABEL]
    assert len(machine.made) == 3
    warm_up, *counted = [sum(plan.num_tokens for plan in executor.plans) for _, executor in machine.made]
    prompts = 2 * (9 + 22)
    outputs = 4 * 3
    assert warm_up == machine.max_context - 1
    assert counted[0] == prompts + outputs
    matched = sum(record.matched_tokens for record in result.runs[1].requests)
    assert counted[1] == prompts + outputs - matched
    assert told == [(label, 1) for label in (BASELINE_LABEL, CACHE_LABEL) for _ in range(4)]


def test_what_was_possible_is_reckoned_with_the_outputs_that_were_generated() -> None:
    result = run_measurement(measurement(two_users()), ParrotMachine())
    bounds = result.runs[1].bounds
    assert isinstance(bounds, Bounds)
    assert result.runs[0].bounds is None
    matched = sum(record.matched_tokens for record in result.runs[1].requests)
    # 8 of 9, and the answer of the first user is that of the second: 12 of 22 each.
    assert matched == 0 + 12 + 8 + 12
    assert (bounds.ceiling_tokens, bounds.optimum_tokens) == (matched, matched)
    assert bounds.num_requests == 4
    assert run_measurement(measurement(two_users(), bounds=False), ParrotMachine()).runs[1].bounds is None


def test_the_document_names_the_machine_and_everything_else() -> None:
    result = run_measurement(
        measurement(two_users(), baseline=False, seed=3, pace=ClosedLoop(1)), ParrotMachine()
    )
    assert result.config["machine"] == {"device": "parrot"}
    assert result.config["workload"] == {"name": "by hand", "sessions": 2, "requests": 4, "from": "here"}
    assert result.config["loop"] == "closed"
    assert result.versions["parrot"] == "1.0"
    assert "numpy" in result.versions
    assert (result.seed, result.times) == (3, "measured")
    assert [run.label for run in result.runs] == [CACHE_LABEL]
    assert "Times are measured" in result.notes[0]


def test_requests_beyond_the_context_are_refused() -> None:
    load = workload((0.0, [turn(0, 60, 4)]), (1.0, [turn(100, 61, 4)]))
    result = run_measurement(measurement(load), ParrotMachine())
    for run in result.runs:
        assert [record.status for record in run.requests] == ["finished", "refused"]
        assert "65 tokens of prompt and output" in (run.requests[1].error or "")
    assert len(result.warnings) == 2


def test_a_machine_too_small_to_be_warmed_up_is_not() -> None:
    machine = ParrotMachine()
    machine.max_context = 4
    run_measurement(measurement(workload((0.0, [turn(0, 2, 2)])), baseline=False), machine)
    assert len(machine.made) == 1


def test_without_a_limit_a_simulation_refuses_nothing_for_its_context() -> None:
    assert simulate(workload((0.0, [turn(0, 61, 4)]))).requests[0].status == "finished"


@pytest.mark.parametrize("raises", [True, False])
def test_a_failing_machine_ends_the_measurement(monkeypatch: pytest.MonkeyPatch, raises: bool) -> None:
    """Also where only a row of it fails."""

    def fail(_: Parrot, plan: StepPlan) -> StepOutput:
        error = ArithmeticError("no number")
        if raises:
            raise error
        return StepOutput({}, 1, {plan.rows[0].request.request_id: error})

    monkeypatch.setattr(Parrot, "execute", fail)
    with pytest.raises(ArithmeticError, match="no number"):
        run_measurement(measurement(two_users()), ParrotMachine())


def test_warm_up_tokens_are_tokens_of_the_machine() -> None:
    machine = ParrotMachine()
    machine.vocab = 5
    run_measurement(measurement(two_users()), machine)
    (row,) = machine.made[0][1].plans[0].rows
    assert np.unique(row.request.prompt.numpy()).tolist() == [0, 1, 2, 3, 4]
