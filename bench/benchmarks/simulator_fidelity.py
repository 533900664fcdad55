"""Whether the simulator predicts a real engine: fitted on single steps, held against a workload."""

from typing import TYPE_CHECKING, NamedTuple

from bench.errors import expect
from bench.harness.report import Figure, Limit, Report
from bench.harness.timing import frozen_heap
from bench.options import Options

if TYPE_CHECKING:
    from bench.scenarios.served_model import ServedModel
    from bench.scenarios.served_workload import Served
    from bench.scenarios.timed_steps import Shape
    from runtime.cost import FittedCost
    from runtime.workload import Workload

LIMIT = Limit(statistic="median", low=0.85, plus=1.15)
USERS = 4
WANTED = 5
"""Repetitions that count."""


class Repetition(NamedTuple):
    """A real run between two micro-benchmarks, and the run that the first of them predicts.

    Attributes:
        cost: Fitted on the micro-benchmark before.
        real: What the engine did.
        simulated: What the simulator said.
        drift: By how much the micro-benchmark after took longer than the one before.
    """

    cost: "FittedCost"
    real: "Served"
    simulated: "Served"
    drift: float

    @property
    def ratios(self) -> tuple[float, float]:
        """Simulated over measured: p50 TTFT, throughput."""
        return (
            self.simulated.ttft_p50_s / self.real.ttft_p50_s,
            self.simulated.tokens_per_s / self.real.tokens_per_s,
        )


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with these, and no benchmark of the core should have it in its process
    import torch

    from bench.scenarios.served_model import served_model
    from bench.scenarios.timed_steps import DRIFT

    model = served_model(options)
    workload, shapes = _workload(model, options), _shapes(options)
    made = _repetitions(model, workload, shapes, options, most=options.pick(tiny=1, full=2 * WANTED))
    counting = [repetition for repetition in made if abs(repetition.drift) <= DRIFT][:WANTED]
    is_void = len(counting) < options.pick(tiny=1, full=WANTED)
    shown = made if is_void else counting
    limits = () if is_void or options.size == "tiny" else (LIMIT,)
    verdict = (
        f"VOID: of {len(made)} repetitions, {len(counting)} had micro-benchmarks before and after within "
        f"{DRIFT:.0%} of each other, {WANTED} are needed. The figures show all and prove nothing."
        if is_void
        else f"{len(made) - len(counting)} of {len(made)} repetitions were void and left out."
    )
    return Report(
        name="simulator_fidelity",
        question="does the simulator, fitted to this machine, predict TTFT and throughput of a real run?",
        config={
            "model": model.name,
            "torch threads": torch.get_num_threads(),
            "requests": workload.num_turns,
            "users": USERS,
            "micro-benchmark": "; ".join(
                f"{shape.num_prompts} x {shape.prompt_len} + {shape.output_len}" for shape in shapes
            ),
            "repetitions": len(made),
        },
        figures=tuple(
            Figure(
                name=f"{name}, simulated / measured",
                unit="ratio",
                samples={"wall": [repetition.ratios[place] for repetition in shown]},
                limits=limits,
            )
            for place, name in enumerate(("p50 TTFT", "throughput"))
        ),
        notes=(
            verdict,
            *(_describe(number, repetition) for number, repetition in enumerate(made, 1)),
            (
                "The cost model knows single steps of other prompts, without a cache: a fixed time, and a "
                "time for each token, row with logits, prefill pair and decode pair. Scheduler, cache and "
                "arrivals are the same code in both runs; pauses in which nobody is served are skipped."
            ),
            "Every request was answered in both runs, and every output had its length.",
        ),
    )


def _repetitions(
    model: "ServedModel", workload: "Workload", shapes: tuple["Shape", ...], options: Options, *, most: int
) -> list[Repetition]:
    """Repetitions until enough of them count, but no more than `most`."""
    from bench.scenarios.served_workload import serve, simulate, tokens_of
    from bench.scenarios.timed_steps import DRIFT, drift, timed_steps
    from runtime.cost import FittedCost
    from runtime.simulation import ClosedLoop

    pace, times = ClosedLoop(USERS), options.pick(tiny=2, full=3)
    config = model.engine_config(2 * tokens_of(workload))
    made: list[Repetition] = []
    with frozen_heap():
        timed_steps(model, shapes, repetitions=1, seed=options.seed)  # warms up
        before = timed_steps(model, shapes, repetitions=times, seed=options.seed)
        while len(made) < most and sum(abs(each.drift) <= DRIFT for each in made) < WANTED:
            cost = FittedCost.fit(before)
            real = serve(model, config, workload, pace)
            after = timed_steps(model, shapes, repetitions=times, seed=options.seed)
            simulated = simulate(cost, config, workload, pace)
            expect("output tokens, simulated", simulated.output_tokens, real.output_tokens)
            made.append(Repetition(cost, real, simulated, drift(before, after)))
            before = after
    return made


def _workload(model: "ServedModel", options: Options) -> "Workload":
    from bench.scenarios.served_workload import chats

    tiny = options.size == "tiny"
    return chats(
        model,
        num_sessions=4 if tiny else 12,
        num_turns=2 if tiny else 4,
        question_tokens=16 if tiny else 120,
        output_tokens=3 if tiny else 24,
        mean_gap_s=0.01 if tiny else 1.0,
        seed=options.seed + 1000,
    )


def _shapes(options: Options) -> tuple["Shape", ...]:
    from bench.scenarios.timed_steps import Shape

    if options.size == "tiny":
        return Shape(1, 40, 3), Shape(2, 100, 3), Shape(1, 600, 2), Shape(3, 20, 3)
    return (
        Shape(1, 24, 4),
        Shape(1, 64, 4),
        Shape(1, 160, 4),
        Shape(1, 384, 4),
        Shape(1, 1536, 4),
        Shape(2, 128, 6),
        Shape(4, 64, 6),
        Shape(4, 512, 6),
        Shape(8, 256, 6),
    )


def _describe(number: int, repetition: Repetition) -> str:
    from bench.scenarios.timed_steps import calibration_row

    real, simulated = repetition.real, repetition.simulated
    return (
        f"Repetition {number}: calibration {calibration_row(repetition.cost)}. p50 TTFT "
        f"{real.ttft_p50_s * 1e3:,.0f} ms measured, {simulated.ttft_p50_s * 1e3:,.0f} ms simulated; "
        f"throughput {real.tokens_per_s:.2f} and {simulated.tokens_per_s:.2f} output tokens/s; "
        f"{real.cached_tokens:,} and {simulated.cached_tokens:,} cached tokens. The micro-benchmark "
        f"after took {repetition.drift:+.1%}."
    )
