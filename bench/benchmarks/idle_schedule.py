"""What planning a step costs when many wait and none fits."""

from bench.benchmarks.traces import trace_of
from bench.harness.promises import flat, median_point
from bench.harness.report import Bound, Figure, Limit, Picture, Points, Report
from bench.harness.timing import Samples, Stopwatch, frozen_heap
from bench.options import Options
from bench.scenarios.full_pool import FullPool
from bench.workloads.prompt_stream import PromptStream
from scheduler.policies import QUEUE_POLICIES

SHORTEST, LONGEST = 4_096, 12_288
USUAL = 16
IN_A_ROW = 5
"""Steps that a queue makes before it is another's turn, after one that is not timed."""
LIMITS = (
    Limit(statistic="mean", plus=100.0),
    Limit(statistic="mean", factor=1.0, plus=100.0, source="ours, for what those who wait add"),
)
STATES = {"nothing changed": False, "the head is tried again": True}


def run(options: Options) -> Report:
    """See the module."""
    tiny = options.size == "tiny"
    lengths, steps = (8, 20) if tiny else (128, 2_048, 10_000), options.pick(tiny=5, full=300)
    stream = PromptStream(trace_of(options), SHORTEST, LONGEST)
    figures: list[Figure] = []
    lines: dict[str, dict[str, Points]] = {state: {} for state in STATES}
    for policy in QUEUE_POLICIES:
        for num_running in (1, USUAL, 256) if policy == "lpm" and not tiny else (USUAL,):
            shown = lengths if num_running == USUAL else lengths[-1:]
            taken = _steps(options, policy, num_running, (0, *shown), stream, steps)
            figures += [
                Figure(
                    name=f"schedule, {policy}, {num_running} run, {num_waiting:,} wait, {state}",
                    unit="us",
                    samples=taken[state][num_waiting],
                    bound=Bound(name="nobody waits", samples=taken[state][0]),
                    limits=LIMITS,
                )
                for num_waiting in shown
                for state in STATES
            ]
            for state in STATES if num_running == USUAL else ():
                lines[state][policy] = [median_point(size, taken[state][size]) for size in shown]
    return Report(
        name="idle_schedule",
        question="what does a step cost that admits nobody, however many wait?",
        config={
            "waiting": list(lengths),
            "prompt_tokens": [SHORTEST, LONGEST],
            "running": [1, USUAL, 256],
            "steps": steps,
        },
        figures=tuple(figures),
        pictures=tuple(_picture(state, lines[state]) for state in STATES),
        notes=(
            (
                f"Queues of all lengths, and none, take turns, {IN_A_ROW} steps each after one that is not "
                "timed, so that each finds its own data near."
            ),
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
    lengths: tuple[int, ...],
    stream: PromptStream,
    steps: int,
) -> dict[str, dict[int, Samples]]:
    """Samples by state and queue length, all lengths in turn."""
    scenarios = {
        num_waiting: FullPool(
            policy,
            num_running,
            num_waiting,
            iter(stream),
            num_steps=2 * (steps + steps // IN_A_ROW),
            page_size=options.page_size,
            seed=options.seed,
        )
        for num_waiting in lengths
    }
    samples = {}
    for state, disturbed in STATES.items():
        watches = {num_waiting: Stopwatch() for num_waiting in lengths}
        with frozen_heap():
            for _ in range(steps // IN_A_ROW):
                for num_waiting, scenario in scenarios.items():
                    scenario.step(Stopwatch(), disturbed=disturbed)
                    for _ in range(IN_A_ROW):
                        scenario.step(watches[num_waiting], disturbed=disturbed)
        samples[state] = {num_waiting: watch.samples() for num_waiting, watch in watches.items()}
    for scenario in scenarios.values():
        scenario.verify()
    return samples


def _picture(state: str, lines: dict[str, Points]) -> Picture:
    return Picture(
        name=f"idle_schedule_{'retried' if STATES[state] else 'unchanged'}",
        title=f"Planning a step that admits nobody, {USUAL} run: {state}",
        x="requests that wait",
        y="median CPU time [us]",
        lines=lines,
        levels={"limit": LIMITS[0].plus},
        promises={"promised: flat (lpm)": flat(lines["lpm"])},
    )
