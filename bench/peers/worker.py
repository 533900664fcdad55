"""Measures one contender in this process and writes what it found to standard output as JSON.

python -m bench.peers.worker < job.json
"""

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import msgspec

from bench.harness.report import Figure, Setting
from bench.options import Options
from bench.peers import measure, schedule, weigh
from bench.peers.contender import Row, Spec
from bench.peers.contenders import CONTENDERS
from bench.peers.document import Measured
from bench.peers.oracle import Expected
from bench.workloads.trace import Trace

ROWS: tuple[Row, ...] = ("memory", "peek", "hold", "churn", "replay", "convert", "schedule")
"""What is measured, in this order; memory first, while the process is fresh."""

STARTS: dict[str, tuple[str, ...]] = {
    "memory": ("growth",),
    "peek": ("peek",),
    "hold": ("look up",),
    "churn": ("evict a page",),
    "replay": ("a request of the trace", "hit rate"),
    "convert": ("make tokens",),
    "schedule": ("scheduling pass",),
}
"""How the names of a row's figures start."""


class Job(msgspec.Struct, frozen=True):
    """What to measure.

    Attributes:
        contender: A key of `CONTENDERS`.
        rows: Which rows.
        options: As given to the run.
        trace: The trace as arrays.
        capacities: Tokens of capacity to replay at.
        expected: What the replays should find.
        folder: Where the peers are installed.
    """

    contender: str
    rows: tuple[Row, ...]
    options: Options
    trace: str
    capacities: tuple[int, ...]
    expected: Expected
    folder: str


def settings(options: Options) -> dict[str, Setting]:
    """Every setting that a rerun needs."""
    return {**measure.settings(options), **schedule.settings(options), **weigh.settings(options)}


def figures_of(row: Row, spec: Spec, job: Job, trace: Trace) -> Iterator[Figure]:
    """Measure one row of one contender."""
    options, folder = job.options, Path(job.folder)
    build = spec.build(folder)
    simple: dict[Row, Callable[[], Iterator[Figure]]] = {
        "memory": lambda: weigh.weigh(build, options, trace, traced=not spec.compiled),
        "peek": lambda: measure.peek(build, options),
        "hold": lambda: measure.hold(build, options),
        "churn": lambda: measure.churn(build, options),
        "convert": lambda: measure.convert(build, options),
    }
    if row in simple:
        yield from simple[row]()
    elif row == "replay":
        some = spec.capacities or job.capacities
        capacities = tuple(capacity for capacity in job.capacities if capacity in some) or job.capacities[:1]
        yield from measure.replay(build, options, trace, job.expected, capacities, exact=spec.page_exact)
    else:
        for orders, queue in spec.queues.items():
            yield from schedule.schedule(queue(folder), orders, options, trace)


def run_job(job: Job) -> Measured:
    """What one contender has; a row that fails is reported, and the others go on."""
    spec, trace = CONTENDERS[job.contender], Trace.load(Path(job.trace))
    figures: list[Figure] = []
    errors: dict[str, str] = {}
    seconds = {"start": round(process_time(), 1)}
    for row in job.rows:
        if row in spec.lacks:
            continue
        start = process_time()
        try:
            figures += list(figures_of(row, spec, job, trace))
        except Exception:  # noqa: BLE001 - the other rows go on, and this one is reported
            errors[row] = traceback.format_exc()
        seconds[row] = round(process_time() - start, 1)
    lacks = {start: why for row, why in spec.lacks.items() for start in STARTS.get(row, (row,))}
    return Measured(
        contender=job.contender,
        figures=tuple(figures),
        lacks=lacks,
        remarks=dict(spec.remarks),
        errors=errors,
        seconds=seconds,
    )


def main() -> None:
    """See the module."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    stdout = os.dup(1)
    os.dup2(2, 1)  # whatever the peers print
    measured = run_job(job)
    with os.fdopen(stdout, "wb") as file:
        file.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    main()
