"""The row of a comparison that a waiting queue takes part in."""

from collections.abc import Iterator, Sequence
from time import monotonic

from bench.harness.report import Figure, Setting
from bench.harness.timing import frozen_heap
from bench.options import Options
from bench.peers.contender import BuildQueue
from bench.peers.measure import FEWEST, PATIENCE_S
from bench.workloads.prompt_stream import PromptStream
from bench.workloads.trace import Trace

SHORTEST, LONGEST = 4_096, 12_288
"""Tokens of the prompts that wait."""


def settings(options: Options) -> dict[str, Setting]:
    """Every setting of this row that a rerun needs."""
    return {
        "waiting": list(_lengths(options)),
        "waiting_prompt_tokens": [SHORTEST, LONGEST],
        "queue_capacity": _capacity(options),
        "passes": _num_passes(options),
    }


def schedule(build: BuildQueue, orders: Sequence[str], options: Options, trace: Trace) -> Iterator[Figure]:
    """Deciding who is next, after a request was served and published, and another one joined.

    Args:
        build: Makes the queue.
        orders: What the table calls its order.
        options: As given to the run.
        trace: Where the prompts come from.

    Raises:
        WrongResult: The first is not whom the order names, before or after the passes that are timed.
    """
    stream = PromptStream(trace, SHORTEST, LONGEST)
    for num_waiting in _lengths(options):
        queue = build(num_waiting, iter(stream), _capacity(options) // options.page_size, options.page_size)
        queue.warm_up(options.pick(tiny=2, full=100))
        queue.verify()
        queue.passes.clear()
        end = monotonic() + PATIENCE_S
        with frozen_heap():
            for number in range(_num_passes(options)):
                queue.dispatch()
                if monotonic() > end and number + 1 >= FEWEST:
                    break
        samples = queue.passes.samples()
        queue.verify()
        for order in orders:
            yield Figure(
                name=f"scheduling pass, {order}, {num_waiting:,} waiting", unit="us", samples=samples
            )


def _lengths(options: Options) -> tuple[int, ...]:
    return (16,) if options.size == "tiny" else (128, 1_000, 10_000)


def _capacity(options: Options) -> int:
    return options.pick(tiny=200_000, full=1_000_000)


def _num_passes(options: Options) -> int:
    return options.pick(tiny=5, full=500)
