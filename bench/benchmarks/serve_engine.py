"""Conversations with a real model, with the cache and without, from light load to overload."""

from typing import TYPE_CHECKING

from bench.benchmarks.load_figures import Load, censored_notes, figures, limits_note, pictures
from bench.harness.report import Report
from bench.harness.timing import frozen_heap
from bench.options import Options
from bench.scenarios.load_point import (
    LoadPoint,
    Window,
    require_no_hits,
    require_same_work,
)
from runtime.lab.probe import Limits
from runtime.result import BASELINE_LABEL, CACHE_LABEL
from runtime.simulation import OpenLoop

if TYPE_CHECKING:
    from bench.scenarios.measured_load import Measured, MeasuredLoad
    from bench.scenarios.served_model import ServedModel
    from runtime.workload import Workload

RATES = (0.1, 0.3, 1.0)
"""Conversations that start a second."""
MEAN_GAP_S = 4.0
"""Of the workload as it is made: seconds between two starts, and of a pause before a question."""
LIMITS = Limits(ttft_s=1.0, tpot_s=0.2)
UNIT = "conversations/s"
LABELS = (BASELINE_LABEL, CACHE_LABEL)
NOTES = (
    (
        "Measured: the model computes every step, and the clock goes on by what the step took. The work of "
        "scheduler and cache between steps is not in it (engine_overhead shows it), and pauses in which "
        "nobody is served are skipped, not waited for."
    ),
    (
        "Each sample is a repetition. One follows the other, without the cache, then with it; the same "
        "conversations each time, so the spread is that of the machine."
    ),
    (
        "All requests count, also those of the slow beginning and end. They are few, so p99 is the longest. "
        "Questions come when the answer before is there and read: fewer arrive where answers take longer."
    ),
    (
        "Checked before: every request was finished, its prompt is what was matched and what was missed, "
        "prompts and answers have the same lengths in all runs, nothing was matched without the cache, and "
        "`check(cache)` found nothing at the end."
    ),
)


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with these, and no benchmark of the core should have it in its process
    import torch

    from bench.scenarios.measured_load import MeasuredLoad
    from bench.scenarios.served_model import served_model
    from bench.scenarios.served_workload import tokens_of

    model = served_model(options)
    workload = _workload(model, options)
    rates = (0.2, 2.0) if options.size == "tiny" else RATES
    config = model.engine_config(2 * tokens_of(workload))
    measured = MeasuredLoad(model, workload, config.cache_config(), config.scheduler)
    repetitions = options.pick(tiny=1, full=5)
    with frozen_heap():
        measured.warm_up()
        runs, compared = _points(measured, rates, repetitions)
    load = Load("serve_engine", "measured", UNIT, LIMITS, runs)
    outputs = sum(turn.output_len for session in workload.sessions for turn in session.turns)
    return Report(
        name="serve_engine",
        question="how do TTFT, TPOT and goodput of a real model change with load?",
        config={
            "model": model.name,
            "torch threads": torch.get_num_threads(),
            "conversations": len(workload.sessions),
            "requests": workload.num_turns,
            "output tokens": outputs,
            "rates": ", ".join(f"{rate:g} {UNIT}" for rate in rates),
            "mean pause": f"{MEAN_GAP_S:g} s",
            "capacity_tokens": config.num_pages * config.page_size,
            "page_size": config.page_size,
            "token_budget": config.scheduler.token_budget,
            "policy": str(config.scheduler.policy),
            "repetitions": repetitions,
        },
        figures=figures(load),
        notes=(
            limits_note(LIMITS),
            *censored_notes(load),
            *NOTES,
            (
                f"Answers are greedy and were compared with those of the first run without the cache: "
                f"{compared:,} tokens, all the same but where two tokens tied."
            ),
        ),
        pictures=pictures(load),
    )


def _points(
    measured: "MeasuredLoad", rates: tuple[float, ...], repetitions: int
) -> tuple[dict[str, dict[float, list[LoadPoint]]], int]:
    """Points by cache and rate, and how many output tokens were compared."""
    points: dict[str, dict[float, list[LoadPoint]]] = {label: {} for label in LABELS}
    reference: Measured | None = None
    compared = 0
    for number in range(repetitions):
        for rate in rates:
            for label in LABELS:
                found = measured.serve(label, OpenLoop(rate * MEAN_GAP_S))
                what = f"{label}, {rate:g} {UNIT}, repetition {number + 1}"
                if reference is None:
                    reference = found
                require_same_work(what, {BASELINE_LABEL: reference.run, label: found.run})
                if label == BASELINE_LABEL:
                    require_no_hits(what, found.run)
                compared += measured.require_same_texts(what, found.texts, reference.texts)
                window = Window(0.0, found.run.makespan_s)
                points[label].setdefault(rate, []).append(measured.judge(label, found.run, window, LIMITS))
    return points, compared


def _workload(model: "ServedModel", options: Options) -> "Workload":
    from bench.scenarios.served_workload import chats

    tiny = options.size == "tiny"
    return chats(
        model,
        num_sessions=3 if tiny else 8,
        num_turns=2 if tiny else 3,
        question_tokens=16 if tiny else 90,
        output_tokens=3 if tiny else 8,
        mean_gap_s=MEAN_GAP_S,
        seed=options.seed + 2000,
    )
