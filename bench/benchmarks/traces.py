"""Which trace a run replays, and at which capacities."""

from pathlib import Path

import numpy as np

from bench.options import Options
from bench.workloads.generated_trace import generate
from bench.workloads.trace import Trace
from runtime.workload.model import Blocks
from runtime.workload.traces.mooncake import load_mooncake
from runtime.workload.traces.options import TraceOptions

MOONCAKE_REQUESTS = 12_031
FULL_CAPACITIES = (1_000_000, 3_000_000, 10_000_000)
TINY_CAPACITIES = (200_000, 600_000)

MOONCAKE_HIT_RATES = {1_000_000: 0.05417, 3_000_000: 0.13766, 10_000_000: 0.28996}
"""Of the conversation trace at page size 16, by tokens of capacity."""


def trace_of(options: Options) -> Trace:
    """The given trace, or a generated one."""
    if options.trace is not None:
        return load(Path(options.trace))
    return generate(options.pick(tiny=60, full=MOONCAKE_REQUESTS), options.seed)


def capacities(options: Options) -> tuple[int, ...]:
    """Tokens of capacity to replay at."""
    return TINY_CAPACITIES if options.size == "tiny" else FULL_CAPACITIES


def load(path: Path) -> Trace:
    """Read a trace in the Mooncake format.

    Raises:
        TraceError: See `runtime.workload.traces`.
    """
    workload = load_mooncake(path, TraceOptions())
    prompts: list[Blocks] = []
    outputs: list[int] = []
    for session in workload.sessions:
        for turn in session.turns:
            (segment,) = turn.segments
            assert isinstance(segment, Blocks)
            prompts.append(segment)
            outputs.append(turn.output_len)
    return Trace(
        name=path.name,
        block_ids=np.concatenate([prompt.block_ids for prompt in prompts]).astype(np.int32),
        block_starts=np.cumsum([0, *(len(prompt.block_ids) for prompt in prompts)]).astype(np.int64),
        prompt_lens=np.array([len(prompt) for prompt in prompts], dtype=np.int64),
        output_lens=np.array(outputs, dtype=np.int64),
    )


def expected_hit_rate(trace: Trace, capacity: int, page_size: int) -> float | None:
    """What the Mooncake conversation trace is known to hit at a capacity; `None` for anything else."""
    is_known = trace.name == "mooncake_conversation.jsonl" and len(trace) == MOONCAKE_REQUESTS
    return MOONCAKE_HIT_RATES.get(capacity) if is_known and page_size == 16 else None
