"""Bookkeeping memory a cached token, in fresh processes, after one trace and after three."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.benchmarks.traces import capacities, trace_of
from bench.harness.environment import ROOT
from bench.harness.report import Bound, Figure, Limit, Report
from bench.options import Options

LIMIT = Limit(statistic="median", plus=8.0)
ROUNDS = (1, 3)
NOT_GROWING = Limit(statistic="median", factor=1.05, source="ours, for 'not growing'")
METHODS = {
    "traced": "live Python and NumPy allocations (tracemalloc)",
    "resident": "growth of the resident set",
}


def run(options: Options) -> Report:
    """See the module."""
    capacity = capacities(options)[-1]
    num_pages = capacity // options.page_size
    repetitions = {"traced": 1, "resident": options.pick(tiny=1, full=5)}
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.npz"
        trace = trace_of(options)
        trace.save(path)
        for method, meaning in METHODS.items():
            taken: dict[int, list[float]] = {rounds: [] for rounds in ROUNDS}
            for _ in range(repetitions[method]):
                for rounds, values in taken.items():
                    values.append(_measure(path, method, rounds, num_pages, options.page_size))
            once = Bound(name=f"after {ROUNDS[0]} x", samples={"value": taken[ROUNDS[0]]})
            figures += [
                Figure(
                    name=f"{meaning}, after {rounds} x the trace",
                    unit="bytes a cached token",
                    samples={"value": values},
                    bound=None if rounds == ROUNDS[0] else once,
                    limits=(LIMIT,) if rounds == ROUNDS[0] else (LIMIT, NOT_GROWING),
                )
                for rounds, values in taken.items()
            ]
    return Report(
        name="memory",
        question="how much does the bookkeeping of a full cache weigh, and does it grow with history?",
        config={"trace": trace.name, "capacity": capacity, "repetitions": repetitions["resident"]},
        figures=tuple(figures),
        notes=(
            (
                "Each figure comes from a process of its own that replays the trace on one cache, drops "
                "everything else, collects garbage, and divides what the cache added by the tokens cached at "
                "the end. Rounds two and three shift all block ids, so that their content is new."
            ),
            (
                "tracemalloc counts what is alive, at its requested size; the resident set also counts "
                "fragmentation and memory that the allocator keeps for later. It is read from /proc; "
                "elsewhere that figure is 0."
            ),
            (
                "Processes with one round and with three take turns. What tracemalloc counts differs by less "
                "than 0.1 % from process to process, so it has one sample."
            ),
        ),
    )


def _measure(trace: Path, method: str, rounds: int, num_pages: int, page_size: int) -> float:
    job = {
        "trace": str(trace),
        "method": method,
        "rounds": rounds,
        "num_pages": num_pages,
        "page_size": page_size,
    }
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "bench.probes.memory", json.dumps(job)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return float(done.stdout)
