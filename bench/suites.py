"""Which benchmarks are run and shown together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Benchmarks that answer one question.

    Attributes:
        title: What is measured.
        question: What a reader wants to know.
        benchmarks: Names in the registry, in the order they run.
        simulated: Those whose times come from a cost model instead of a clock.
        caveats: What the numbers do not show.
    """

    title: str
    question: str
    benchmarks: tuple[str, ...]
    simulated: frozenset[str] = frozenset()
    caveats: tuple[str, ...] = ()


ONE_MACHINE = "One machine, one Python version. Others share the host: compare ratios, not microseconds."

SUITES = {
    "micro": Suite(
        title="single operations",
        question="Does each operation keep its promised cost as trees, prompts and queues grow?",
        benchmarks=(
            "peek",
            "making_tokens",
            "publish",
            "deep_path",
            "evict_insert",
            "lock",
            "queue_dispatch",
            "published_chunk",
            "idle_schedule",
            "step_metadata",
        ),
        caveats=(
            ONE_MACHINE,
            "Prompt and tree lie in the processor's caches, which is kinder than a server is.",
            "Nobody is held while the next request is chosen: dispatches come one after the other.",
            "No KV is computed and no GPU is involved.",
        ),
    ),
    "replay": Suite(
        title="traces, request by request",
        question="What does the cache cost a request, and how far is its hit rate from what was possible?",
        benchmarks=("replay", "block_replay", "curve_speed", "eviction_gap", "eviction_sessions"),
        caveats=(
            ONE_MACHINE,
            "Requests come one after the other: nothing waits, is preempted, or is shared in flight.",
            "No KV is computed; what the saved prefill is worth depends on model and device.",
        ),
    ),
    "serve": Suite(
        title="serving, with the cache and without",
        question="What do users gain, by load: time to first token, time per output token, goodput?",
        benchmarks=(
            "simulate_chat",
            "serve_simulated",
            "serve_trace",
            "bounded_waiting",
            "simulate_speed",
            "serve_engine",
            "engine_throughput",
            "engine_conversation",
            "engine_agents",
            "engine_overhead",
            "simulator_fidelity",
        ),
        simulated=frozenset({"simulate_chat", "serve_simulated", "serve_trace", "bounded_waiting"}),
        caveats=(
            "Simulated times are those of a cost model (`runtime.cost`), of no GPU that was measured here.",
            "The real model is a small one on a CPU, where computing is dear and bookkeeping a small share.",
            "Past the capacity the queue grows as long as requests come: latencies tell how long that was.",
            "Capacities are steps of a grid, for limits of ours; a question waits for the answer before it.",
            ONE_MACHINE,
        ),
    ),
    "memory": Suite(
        title="bytes a cached token",
        question="What does the bookkeeping weigh, and does it grow with history?",
        benchmarks=("memory",),
        caveats=(
            "Resident memory depends on the allocator and the system.",
            "The KV itself is not in it; it is some 10,000 times as large.",
        ),
    ),
    "import": Suite(
        title="import time",
        question="What does importing the packages take, without torch?",
        benchmarks=("import_time",),
        caveats=(ONE_MACHINE, "Files are in the system's cache; a first import after boot takes longer."),
    ),
}
