"""Where a run was taken: commit, machine, versions."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("radixcache", "numpy", "sortedcontainers", "msgspec", "rich", "click", "torch", "transformers")

Environment = dict[str, str | int | bool | dict[str, str] | None]


def describe() -> Environment:
    """Everything that a reader needs to judge a number; no host name, no path.

    Results that were written and not committed yet make nothing dirty: they change no number.
    """
    status = _git("status", "--porcelain", "--", ".", ":(exclude)bench/results")
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
        "cpu": cpu_model(),
        "cores": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {sys.version.split()[0]}",
        "versions": versions(PACKAGES),
    }


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of installed distributions; absent ones are left out."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def cpu_model() -> str:
    """What the processor calls itself."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "-C", str(ROOT), *arguments],  # noqa: S607 - whichever git the user has
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
