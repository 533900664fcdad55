"""An environment for the peers, made on demand and apart from everything else."""

import subprocess
import sys
from pathlib import Path

from bench.errors import BenchError
from bench.harness.environment import ROOT

HERE = Path(__file__).parent
DEFAULT_FOLDER = ROOT / "build" / "peers"


class PeersMissing(BenchError, FileNotFoundError):
    """The peers are not installed."""


def python_of(folder: Path) -> Path:
    """The interpreter that has the peers.

    Raises:
        PeersMissing: There is none.
    """
    python = folder / "venv" / "bin" / "python"
    if not (folder / "complete").exists():
        raise PeersMissing(f"the peers are not installed in {folder}: run `python -m bench peers --build`")
    return python


def build(folder: Path) -> None:
    """Install the pinned packages: about 1 GB to download at most, some two minutes.

    Raises:
        subprocess.CalledProcessError: The package index lacks one, or has no wheel for this machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)  # noqa: S603 - our own folder
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
    for arguments in (
        ["--requirement", str(HERE / "requirements.txt")],
        ["--requirement", str(HERE / "requirements-sglang.txt")],
        ["--upgrade", "--target", str(folder / "vllm"), "--requirement", str(HERE / "requirements-vllm.txt")],
    ):
        subprocess.run([*pip, *arguments], check=True)  # noqa: S603 - fixed arguments
    (folder / "complete").touch()
