"""One module a benchmark, each with a `run(options)` that checks its results before it reports a number."""

from collections.abc import Callable

from bench.benchmarks import (
    block_replay,
    bounded_waiting,
    curve_speed,
    deep_path,
    engine_agents,
    engine_conversation,
    engine_overhead,
    engine_throughput,
    evict_insert,
    eviction_gap,
    idle_schedule,
    import_time,
    lock,
    making_tokens,
    memory,
    peek,
    publish,
    published_chunk,
    queue_dispatch,
    replay,
    simulate_speed,
    simulator_fidelity,
    step_metadata,
)
from bench.harness.report import Report
from bench.options import Options

BENCHMARKS: dict[str, Callable[[Options], Report]] = {
    "peek": peek.run,
    "making_tokens": making_tokens.run,
    "deep_path": deep_path.run,
    "publish": publish.run,
    "evict_insert": evict_insert.run,
    "lock": lock.run,
    "replay": replay.run,
    "memory": memory.run,
    "import_time": import_time.run,
    "queue_dispatch": queue_dispatch.run,
    "published_chunk": published_chunk.run,
    "idle_schedule": idle_schedule.run,
    "simulate_speed": simulate_speed.run,
    "block_replay": block_replay.run,
    "bounded_waiting": bounded_waiting.run,
    "curve_speed": curve_speed.run,
    "step_metadata": step_metadata.run,
    "eviction_gap": eviction_gap.run,
    "engine_throughput": engine_throughput.run,
    "engine_conversation": engine_conversation.run,
    "engine_agents": engine_agents.run,
    "engine_overhead": engine_overhead.run,
    "simulator_fidelity": simulator_fidelity.run,
}
