"""Runs one benchmark in this process and writes its report to standard output as JSON.

python -m bench.worker NAME < options.json
"""

import sys
import traceback

import msgspec

from bench.benchmarks import BENCHMARKS
from bench.errors import Unavailable
from bench.harness.report import Report
from bench.options import Options


def run_benchmark(name: str, options: Options) -> Report:
    """The report of one benchmark; if that fails or cannot be run here, a report that says why."""
    try:
        return BENCHMARKS[name](options)
    except Unavailable as error:
        return Report(name=name, question="", skipped=str(error))
    except Exception:  # noqa: BLE001 - the other benchmarks go on, and this one is reported
        return Report(name=name, question="", error=traceback.format_exc())


def main() -> None:
    """See the module."""
    options = msgspec.json.decode(sys.stdin.buffer.read(), type=Options)
    sys.stdout.buffer.write(msgspec.json.encode(run_benchmark(sys.argv[1], options)))


if __name__ == "__main__":
    main()
