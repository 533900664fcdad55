"""What counting needs of the system, and what the counts depend on."""

import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.errors import Unavailable

Key = dict[str, str]
"""Everything that counts depend on besides our own code, by name."""

_PASSED_ON = ("sse4_2", "avx", "f16c", "fma", "bmi1", "bmi2", "avx2")
"""Features of the processor that valgrind shows to a program where they are there. It hides AVX-512."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs that were found.

    Attributes:
        valgrind: Counts.
        setarch: Turns address randomisation off.
    """

    valgrind: str
    setarch: str


def find_tools() -> Tools:
    """The programs that counting needs.

    Raises:
        Unavailable: One is missing or does not work here; says which.
    """
    valgrind, setarch = shutil.which("valgrind"), shutil.which("setarch")
    if valgrind is None:
        raise Unavailable("valgrind is not installed (apt-get install valgrind)")
    if setarch is None:
        raise Unavailable("setarch is not installed (apt-get install util-linux)")
    if not Path(sys.executable).read_bytes().startswith(b"\x7fELF"):
        raise Unavailable(f"valgrind cannot look into {Path(sys.executable).name}, which is a script")
    tried = _run(setarch, "--addr-no-randomize", sys.executable, "-c", "")
    if tried.returncode:
        raise Unavailable(f"address randomisation cannot be turned off here: {tried.stderr.strip()}")
    return Tools(valgrind, setarch)


def key(tools: Tools) -> Key:
    """What the counts depend on. The build of Python is among it: profile-guided builds differ."""
    return {
        "python": f"{platform.python_implementation()} {sys.version}",
        "machine": platform.machine(),
        "processor": " ".join(_processor_features()),
        "libc": " ".join(platform.libc_ver()),
        "numpy": version("numpy"),
        "sortedcontainers": version("sortedcontainers"),
        "valgrind": _run(tools.valgrind, "--version").stdout.strip().removeprefix("valgrind-"),
    }


def _processor_features() -> list[str]:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    there = set(next((line for line in lines if line.startswith("flags")), "").split())
    return [name for name in _PASSED_ON if name in there]


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
