"""An environment for the peers, made on demand and apart from everything else."""

import shutil
import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

from bench.errors import BenchError
from bench.harness.environment import ROOT
from bench.peers import ray

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
    complete = folder / "complete"
    if not complete.exists() or complete.read_text(encoding="utf-8") != _pins():
        raise PeersMissing(f"the peers are not installed in {folder}: run `python -m bench peers --build`")
    return python


def installed_versions(folder: Path, packages: Collection[str]) -> dict[str, str]:
    """Versions of the distributions that lie in a folder of peers, by name; absent ones are left out."""
    libraries = [*(folder / "venv" / "lib").glob("python*/site-packages"), folder / "vllm", folder / "ray"]
    found = {
        each.name.lower(): each.version for each in distributions(path=[str(path) for path in libraries])
    }
    return {package: found[package] for package in sorted(packages) if package in found}


def build(folder: Path) -> None:
    """Install the pinned packages: about 1 GB to download at most, some two minutes.

    Of Ray only the file with the prefix tree is kept, and what says its version.

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
    wheels = folder / "ray"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [*pip[:3], "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    subprocess.run(  # noqa: S603 - fixed arguments
        [*command, "--requirement", str(HERE / "requirements-ray.txt")], check=True
    )
    for wheel in wheels.glob("*.whl"):
        unpack(wheel, wheels)
        wheel.unlink()
    (folder / "complete").write_text(_pins(), encoding="utf-8")


def _pins() -> str:
    """All that is to be installed, so that a folder of other versions is not taken for complete."""
    return "".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("requirements*.txt")))


def unpack(wheel: Path, folder: Path) -> None:
    """Take the file with Ray's prefix tree out of its wheel, and what says its version.

    Raises:
        KeyError: The wheel has no such file.
    """
    with ZipFile(wheel) as archive:
        archive.extract(ray.SOURCE.as_posix(), folder)
        for name in archive.namelist():
            if Path(name).match("ray-*.dist-info/METADATA"):
                archive.extract(name, folder)
