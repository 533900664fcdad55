"""Single steps of an engine, timed, with what each had to do: the micro-benchmark of a cost model."""

from collections.abc import Sequence
from statistics import median
from time import perf_counter_ns
from typing import Final, NamedTuple

from bench.scenarios.served_model import ServedModel, wrapped_engine
from runtime.cost import FittedCost, StepLoad
from runtime.engine import Sampler, SamplingParams
from runtime.executor import Executor, StepOutput, load_of
from scheduler import StepPlan

TimedStep = tuple[StepLoad, int]
"""What a step had to do, and how long it took, in picoseconds."""

DRIFT: Final = 0.1
"""Two runs of a micro-benchmark that differ by more were not taken on the same machine, as it were."""


class Shape(NamedTuple):
    """Requests of one part of a micro-benchmark, without anything in common.

    Attributes:
        num_prompts: How many, all at once.
        prompt_len: Tokens of each.
        output_len: Tokens that each generates: one with the prompt, the others in decode steps.
    """

    num_prompts: int
    prompt_len: int
    output_len: int


class _LoadNoting:
    """An executor whose last load is known."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.load: StepLoad | None = None

    def execute(self, plan: StepPlan) -> StepOutput:
        """See `Executor`."""
        self.load = load_of(plan)
        return self._executor.execute(plan)


def timed_steps(
    model: ServedModel, shapes: Sequence[Shape], *, repetitions: int, seed: int
) -> list[TimedStep]:
    """Serve the shapes, one after the other, without a cache; all of `Engine.step` counts.

    Args:
        model: Which model.
        shapes: What to serve.
        repetitions: How often.
        seed: For the prompts.
    """
    room = max(
        shape.num_prompts * (shape.prompt_len + shape.output_len + model.page_size) for shape in shapes
    )
    noting: list[_LoadNoting] = []

    def wrap(executor: Executor) -> Executor:
        noting.append(_LoadNoting(executor))
        return noting[0]

    engine = wrapped_engine(model.decoder, model.engine_config(room, cache=False), Sampler(), wrap)
    steps: list[TimedStep] = []
    for _ in range(repetitions):
        for shape in shapes:
            params = SamplingParams(max_new_tokens=shape.output_len, ignore_eos=True)
            for number in range(shape.num_prompts):
                engine.add_request(model.prompt(seed + number, shape.prompt_len), params)
            while not engine.is_idle:
                start_ns = perf_counter_ns()
                engine.step()
                elapsed_ns = perf_counter_ns() - start_ns
                load = noting[0].load
                assert load is not None
                steps.append((load, elapsed_ns * 1000))
    return steps


def drift(before: Sequence[TimedStep], after: Sequence[TimedStep]) -> float:
    """By how much the second run took longer than the first: median over loads of the ratio of medians - 1.

    Both have the same loads.
    """
    first, second = _medians(before), _medians(after)
    return median(second[load] / taken for load, taken in first.items()) - 1


def _medians(steps: Sequence[TimedStep]) -> dict[StepLoad, float]:
    by_load: dict[StepLoad, list[int]] = {}
    for load, elapsed_ps in steps:
        by_load.setdefault(load, []).append(elapsed_ps)
    return {load: median(taken) for load, taken in by_load.items()}


def calibration_row(cost: FittedCost) -> str:
    """What was fitted, in words."""
    step, token, row, prefill_pair, decode_pair = cost.coefficients
    return (
        f"{step / 1e9:.2f} ms a step, {token / 1e6:.1f} us a token, {row / 1e6:.1f} us a row, "
        f"{prefill_pair / 1e3:.2f} ns a prefill pair, {decode_pair / 1e3:.2f} ns a decode pair; "
        f"median error {cost.median_error:.1%} over {cost.num_loads} loads"
    )
