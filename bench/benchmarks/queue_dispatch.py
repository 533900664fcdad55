"""What the waiting queue costs for each request that is taken from it, at any length."""

from dataclasses import dataclass, field

from bench.benchmarks.traces import trace_of
from bench.harness.promises import flat
from bench.harness.report import Bound, Figure, Limit, Picture, Points, Report
from bench.harness.timing import CPU, Samples, Stopwatch, empty_section, frozen_heap
from bench.options import Options
from bench.scenarios.saturated_queue import SaturatedQueue
from bench.workloads.prompt_stream import PromptStream
from scheduler.policies import QUEUE_POLICIES

SHORTEST, LONGEST = 4_096, 12_288
LENGTHS = (128, 512, 2_048, 10_000)
BESIDE = "lpm"
"""The order that stands beside matching everybody anew."""
BRUTE_FORCE = "matching everybody anew"
LIMITS = (Limit(statistic="mean", plus=100.0), Limit(statistic="p99", plus=1000.0))
ENTRIES = Limit(statistic="max", plus=24.0, source="ours, for 'a small constant'")
NOTES = (
    (
        "A dispatch is all that the queue does for one request: choosing and admitting it, holding who waits "
        "for its pages while it runs, and following the pages that are published and evicted meanwhile. The "
        "cache's own work is not in it, nor is the joining of the request that takes its place."
    ),
    (
        "A sample is made of some 17 timed sections. The clock is taken out: each counts less by the median "
        "of 'an empty timed section'."
    ),
    (
        "On a sample of the dispatches the next request was compared with that of a brute-force oracle, "
        "which matches everybody anew; it is timed beside lpm. Of dfs the length of the match is compared, "
        "of fair the order within the client. The orders that bound waiting do so here, too."
    ),
    (
        "Entries are those of every dictionary, list, heap and array of the queue, and the nodes of its "
        "tree; not among them is one byte for each page of the pool. Counting again gives the same number."
    ),
)


@dataclass(slots=True)
class _Found:
    empty: Samples
    dispatches: list[Figure] = field(default_factory=list)
    arrivals: list[Figure] = field(default_factory=list)
    entries: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lines: dict[str, Points] = field(default_factory=dict)


def run(options: Options) -> Report:
    """See the module."""
    tiny = options.size == "tiny"
    trace = trace_of(options)
    stream = PromptStream(trace, SHORTEST, LONGEST)
    capacity = options.pick(tiny=200_000, full=1_000_000)
    times, checks = options.pick(tiny=10, full=1_000), options.pick(tiny=2, full=10)
    found = _Found(empty_section(times))
    for num_waiting in (8, 16) if tiny else LENGTHS:
        for policy in QUEUE_POLICIES:
            queue = SaturatedQueue(
                policy,
                num_waiting,
                iter(stream),
                num_pages=capacity // options.page_size,
                page_size=options.page_size,
            )
            queue.warm_up(options.pick(tiny=2, full=200))
            _note(found, queue, _dispatch(queue, times, checks))
            queue.drain()
    return Report(
        name="queue_dispatch",
        question="what does exact order cost a dispatch, however many wait?",
        config={
            "trace": trace.name,
            "prompt_tokens": [SHORTEST, LONGEST],
            "prompts_a_round": len(stream),
            "capacity": capacity,
            "dispatches": times,
            "checked": checks + 1,
        },
        figures=(
            Figure(name="an empty timed section", unit="us", samples=found.empty),
            *found.dispatches,
            *found.arrivals,
            *found.entries,
        ),
        notes=(*NOTES, *found.notes),
        pictures=(
            Picture(
                name="queue_dispatch",
                title="Queue work a dispatch",
                x="requests that wait",
                y="mean CPU time [us]",
                lines=found.lines,
                levels={"limit": LIMITS[0].plus},
                promises={f"flat ({BESIDE})": flat(found.lines[BESIDE])},
            ),
        ),
    )


def _dispatch(queue: SaturatedQueue, times: int, checks: int) -> Samples:
    """Dispatch so often; returns what the brute-force order took, on a sample."""
    watch = Stopwatch()
    with frozen_heap():
        for number in range(times):
            if number % (times // checks) == 0:
                queue.verify()
                watch.time(queue.oracle.rematch())
            queue.dispatch()
    queue.verify()
    return watch.samples()


def _note(found: _Found, queue: SaturatedQueue, rematch: Samples) -> None:
    """Put down what was measured on a queue."""
    name = f"{queue.policy}, {queue.num_waiting:,} waiting"
    is_beside = queue.policy == BESIDE
    dispatch = Figure(
        name=f"a dispatch, {name}",
        unit="us",
        samples=queue.dispatches.samples(empty=found.empty),
        bound=Bound(name=BRUTE_FORCE, samples=rematch) if is_beside else None,
        limits=LIMITS,
    )
    entries = queue.entries()
    found.dispatches.append(dispatch)
    arrivals = queue.arrivals.samples(empty=found.empty)
    found.arrivals.append(Figure(name=f"an arrival, {name}", unit="us", samples=arrivals))
    found.entries.append(
        Figure(
            name=f"bookkeeping, {name}",
            unit="entries a waiting request",
            samples={"value": [sum(entries.values()) / queue.num_waiting]},
            limits=(ENTRIES,),
        )
    )
    found.lines.setdefault(queue.policy, []).append((queue.num_waiting, dispatch.statistic("mean", CPU)))
    if is_beside:
        brute = Figure(name="", unit="us", samples=rematch)
        found.lines.setdefault(BRUTE_FORCE, []).append((queue.num_waiting, brute.statistic("mean", CPU)))
        largest = sorted(entries.items(), key=lambda entry: -entry[1])[:6]
        found.notes.append(
            f"{name}: {queue.dispatches.num_sections / len(dispatch.samples[CPU]):.1f} timed sections a "
            f"dispatch; most entries: {', '.join(f'{part} {count:,}' for part, count in largest)}."
        )
