"""Runs the program under valgrind and reads the counts."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError
from bench.harness.environment import ROOT
from bench.instructions.callgrind import section_totals
from bench.instructions.operations import CALLS
from bench.instructions.tools import Tools

PROGRAM = ("-m", "bench.instructions.program")
TIMEOUT = 500
"""Unit: seconds."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted.

    Attributes:
        operations: Instructions a call, by name.
        cpu_seconds: CPU time that counting took.
    """

    operations: dict[str, int]
    cpu_seconds: float


def count_instructions(tools: Tools, program: Sequence[str] = PROGRAM) -> Counts:
    """Run the program, first on its own, then under valgrind.

    The first run finds wrong results soon, and compiles the modules, which would take long under valgrind.

    Args:
        tools: What to run it with.
        program: Arguments of Python.

    Raises:
        BenchError: The program failed, or nothing was counted.
    """
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        before = _cpu_seconds()
        command = [sys.executable, *program]
        environment = _environment(folder)
        _run(command, environment)
        _run([*_valgrind(tools, folder), *command], environment)
        totals = section_totals(Path(folder).glob("callgrind.*"))
        if not totals:
            raise BenchError("the program ran under valgrind, but nothing was counted")
        operations = {name: round(total / CALLS) for name, total in totals.items()}
        return Counts(dict(sorted(operations.items())), round(_cpu_seconds() - before, 1))


def _environment(folder: str) -> dict[str, str]:
    """The same for everybody: what stands there moves the stack, and some of it changes what runs."""
    return {
        "PATH": os.defpath,
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": folder,
    }


def _valgrind(tools: Tools, folder: str) -> list[str]:
    return [
        tools.setarch,
        "--addr-no-randomize",
        tools.valgrind,
        "--command-line-only=yes",
        "--quiet",
        "--vgdb=no",
        "--tool=callgrind",
        "--instr-atstart=no",
        "--dump-line=no",
        f"--callgrind-out-file={folder}/callgrind.%p",
    ]


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - our own program
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    if done.returncode:
        raise BenchError(f"{Path(command[0]).name} ended with exit code {done.returncode}:\n{done.stderr}")


def _cpu_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system
