"""Importing the packages in a fresh process, and what comes with them."""

import json
import subprocess
import sys

from bench.errors import expect
from bench.harness.environment import ROOT
from bench.harness.report import Bound, Figure, Report
from bench.harness.timing import CPU, WALL, Samples
from bench.options import Options

PROGRAM = """
import json, sys, time
cpu, wall = time.process_time_ns(), time.perf_counter_ns()
for name in sys.argv[1:]:
    __import__(name)
cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
print(json.dumps({"cpu": cpu / 1e6, "wall": wall / 1e6, "torch": "torch" in sys.modules}))
"""
DEPENDENCIES = ("numpy", "sortedcontainers")


def run(options: Options) -> Report:
    """See the module."""
    repetitions = options.pick(tiny=1, full=15)
    imports = {"radixcache": ("radixcache",), "scheduler": ("scheduler",), "bound": DEPENDENCIES}
    samples: dict[str, Samples] = {name: {CPU: [], WALL: []} for name in imports}
    for number in range(repetitions + 1):
        for name, modules in imports.items():
            taken = _import(modules)
            expect(f"torch is imported with {name}", taken["torch"], wanted=False)
            if number:  # the first one compiles
                samples[name][CPU].append(taken[CPU])
                samples[name][WALL].append(taken[WALL])
    bound = Bound(name="numpy + sortedcontainers", samples=samples.pop("bound"))
    return Report(
        name="import_time",
        question="what does importing cost?",
        config={"repetitions": repetitions},
        figures=tuple(
            Figure(name=f"import {name}", unit="ms", samples=taken, bound=bound)
            for name, taken in samples.items()
        ),
        notes=("Fresh processes, compiled files warm, CPU time of the process. None of them imports torch.",),
    )


def _import(modules: tuple[str, ...]) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True, check=True, cwd=ROOT
    )
    taken: dict[str, float] = json.loads(done.stdout)
    return taken
