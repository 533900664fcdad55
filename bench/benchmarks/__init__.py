"""One module a benchmark, each with a `run(options)` that checks its results before it reports a number."""

from collections.abc import Callable

from bench.benchmarks import (
    deep_path,
    evict_insert,
    import_time,
    lock,
    making_tokens,
    memory,
    peek,
    replay,
)
from bench.harness.report import Report
from bench.options import Options

BENCHMARKS: dict[str, Callable[[Options], Report]] = {
    "peek": peek.run,
    "making_tokens": making_tokens.run,
    "deep_path": deep_path.run,
    "evict_insert": evict_insert.run,
    "lock": lock.run,
    "replay": replay.run,
    "memory": memory.run,
    "import_time": import_time.run,
}
