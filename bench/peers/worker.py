"""Measures one contender in this process and writes its report to standard output as JSON.

python -m bench.peers.worker < job.json
"""

import os
import sys
import traceback
from functools import partial
from pathlib import Path

import msgspec

from bench.harness.report import Report
from bench.options import Options
from bench.peers.contender import Contender
from bench.peers.measure import Build, measure
from bench.peers.sglang import SGLang
from bench.peers.vllm import VLLM
from bench.workloads.trace import Trace


class Job(msgspec.Struct, frozen=True):
    """What to measure.

    Attributes:
        contender: A key of `CONTENDERS`.
        options: As given to the run.
        trace: The trace as arrays.
        capacities: Tokens of capacity to replay at.
        folder: Where the peers are installed.
    """

    contender: str
    options: Options
    trace: str
    capacities: tuple[int, ...]
    folder: str


def contenders(folder: Path) -> dict[str, Build]:
    """Every contender by its label; versions are pinned in the requirements beside this file."""
    vllm = folder / "vllm"
    return {
        "radixcache": _ours,
        "SGLang 0.5.23, Rust core": partial(SGLang, core="rust"),
        "SGLang 0.5.23, Rust core, as served": partial(SGLang, core="rust", as_served=True),
        "SGLang 0.5.23, Python core": partial(SGLang, core="python"),
        "vLLM 0.33.0, xxhash": partial(VLLM, hash_name="xxhash", folder=vllm),
        "vLLM 0.33.0, sha256": partial(VLLM, hash_name="sha256", folder=vllm),
    }


def _ours(num_pages: int, page_size: int) -> Contender:
    from bench.peers.ours import Ours  # the peers' environment lacks what ours needs

    return Ours(num_pages, page_size)


def run_job(job: Job) -> Report:
    """The report of one contender; if that fails, a report that says how."""
    try:
        build = contenders(Path(job.folder))[job.contender]
        figures = measure(build, job.options, Trace.load(Path(job.trace)), job.capacities)
    except Exception:  # noqa: BLE001 - the other contenders go on, and this one is reported
        return Report(name=job.contender, question="", error=traceback.format_exc())
    return Report(name=job.contender, question="the common workloads", figures=tuple(figures))


def main() -> None:
    """See the module."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    stdout = os.dup(1)
    os.dup2(2, 1)  # whatever the peers print
    report = run_job(job)
    with os.fdopen(stdout, "wb") as file:
        file.write(msgspec.json.encode(report))


if __name__ == "__main__":
    main()
