"""What planning a step costs when many wait and none fits."""

from collections.abc import Iterator

from bench.benchmarks.traces import trace_of
from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import Samples, Stopwatch, frozen_heap
from bench.options import Options
from bench.scenarios.full_pool import FullPool
from bench.workloads.prompt_stream import PromptStream, StreamedRequest
from scheduler.policies import QUEUE_POLICIES

SHORTEST, LONGEST = 4_096, 12_288
USUAL = 16
LIMITS = (
    Limit(statistic="mean", plus=100.0),
    Limit(statistic="mean", factor=1.0, plus=100.0, source="ours, for what those who wait add"),
)
STATES = {"nothing changed": False, "the head is tried again": True}


def run(options: Options) -> Report:
    """See the module."""
    tiny = options.size == "tiny"
    num_waiting, steps = options.pick(tiny=20, full=10_000), options.pick(tiny=3, full=300)
    stream = PromptStream(trace_of(options), SHORTEST, LONGEST)
    figures: list[Figure] = []
    for policy in QUEUE_POLICIES:
        for num_running in (1, USUAL, 256) if policy == "lpm" and not tiny else (USUAL,):
            alone = _steps(options, policy, num_running, 0, iter(stream), steps)
            beside = _steps(options, policy, num_running, num_waiting, iter(stream), steps)
            figures += [
                Figure(
                    name=f"schedule, {policy}, {num_running} run, {num_waiting:,} wait, {state}",
                    unit="us",
                    samples=beside[state],
                    bound=Bound(name="nobody waits", samples=alone[state]),
                    limits=LIMITS,
                )
                for state in STATES
            ]
    return Report(
        name="idle_schedule",
        question="what does a step cost that admits nobody, however many wait?",
        config={
            "waiting": num_waiting,
            "prompt_tokens": [SHORTEST, LONGEST],
            "running": [1, USUAL, 256],
            "steps": steps,
        },
        figures=tuple(figures),
        notes=(
            (
                "Those who run decode one token a step and have, by the admission rule, all pages; that "
                "nobody else comes in is checked at every step. Only `schedule` is timed, rows included."
            ),
            (
                "'Nothing changed': the head was refused before. 'The head is tried again': before each step "
                "one that waits was aborted and another one came, so that the next is chosen, matched, "
                "locked, refused by the rule and given up again."
            ),
        ),
    )


def _steps(
    options: Options,
    policy: str,
    num_running: int,
    num_waiting: int,
    requests: Iterator[StreamedRequest],
    steps: int,
) -> dict[str, Samples]:
    scenario = FullPool(
        policy,
        num_running,
        num_waiting,
        requests,
        num_steps=2 * (steps + 1),
        page_size=options.page_size,
        seed=options.seed,
    )
    samples = {}
    for state, disturbed in STATES.items():
        watch = Stopwatch()
        with frozen_heap():
            scenario.step(Stopwatch(), disturbed=disturbed)
            for _ in range(steps):
                scenario.step(watch, disturbed=disturbed)
        samples[state] = watch.samples()
    scenario.verify()
    return samples
