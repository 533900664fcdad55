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
NOT_GROWING = Limit(statistic="median", factor=1.05, source="ours, for 'not growing'")
METHODS = {
    "traced": "live Python and NumPy allocations (tracemalloc)",
    "resident": "growth of the resident set",
}


def run(options: Options) -> Report:
    """See the module."""
    capacity = capacities(options)[-1]
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.npz"
        trace = trace_of(options)
        trace.save(path)
        for method, meaning in METHODS.items():
            once: Figure | None = None
            for rounds in (1, 3):
                value = _measure(path, method, rounds, capacity // options.page_size, options.page_size)
                figure = Figure(
                    name=f"{meaning}, after {rounds} x the trace",
                    unit="bytes a cached token",
                    samples={"value": [value]},
                    bound=None if once is None else Bound(name="after 1 x", samples=once.samples),
                    limits=(LIMIT,) if once is None else (LIMIT, NOT_GROWING),
                )
                figures.append(figure)
                once = once or figure
    return Report(
        name="memory",
        question="how much does the bookkeeping of a full cache weigh, and does it grow with history?",
        config={"trace": trace.name, "capacity": capacity},
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
