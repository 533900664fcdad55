"""Which trace a run replays, and at which capacities."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.options import Options
from bench.workloads.generated_trace import generate
from bench.workloads.trace import BLOCK_SIZE, Trace
from runtime.lab import PageTrace, page_trace
from runtime.workload import Poisson, Workload
from runtime.workload.model import Blocks, Session, Turn
from runtime.workload.traces.mooncake import load_mooncake
from runtime.workload.traces.options import TraceOptions

MOONCAKE_REQUESTS = 12_031
FULL_CAPACITIES = (1_000_000, 3_000_000, 10_000_000)
TINY_CAPACITIES = (200_000, 600_000)
GENERATED_RATE_PER_S = 3.4
"""Requests a second of the generated trace, as in the Mooncake conversation trace."""

MOONCAKE_HIT_RATES = {1_000_000: 0.05417, 3_000_000: 0.13766, 10_000_000: 0.28996}
"""Of the conversation trace at page size 16, by tokens of capacity."""


def trace_of(options: Options) -> Trace:
    """The given trace, or a generated one."""
    if options.trace is not None:
        return load(Path(options.trace))
    return generate(options.pick(tiny=60, full=MOONCAKE_REQUESTS), options.seed)


def workload_of(options: Options) -> Workload:
    """The same requests with their arrivals: the given ones, or at random."""
    if options.trace is not None:
        return load_mooncake(Path(options.trace), TraceOptions())
    trace = trace_of(options)
    starts = Poisson(rate_per_s=GENERATED_RATE_PER_S).start_times(
        len(trace), np.random.default_rng(options.seed)
    )
    return Workload(
        name=trace.name,
        sessions=tuple(
            Session(session_id=f"request-{number}", start_s=float(start), turns=(_turn(trace, number),))
            for number, start in enumerate(starts)
        ),
        block_size=BLOCK_SIZE,
    )


def _turn(trace: Trace, request: int) -> Turn:
    prompt = Blocks(trace.blocks(request), BLOCK_SIZE, int(trace.prompt_lens[request]))
    return Turn(segments=(prompt,), output_len=int(trace.output_lens[request]))


def replayed_pages(trace: Trace, page_size: int) -> PageTrace:
    """What the laboratory makes of a trace as `bench.scenarios.replay` serves it.

    That computes the KV of every output token, an engine not that of the last one: hence one token more.
    """
    one_more = replace(trace, output_lens=trace.output_lens + 1)
    sessions = (
        Session(session_id=f"request-{number}", start_s=float(number), turns=(_turn(one_more, number),))
        for number in range(len(trace))
    )
    workload = Workload(name=trace.name, sessions=tuple(sessions), block_size=BLOCK_SIZE)
    return page_trace(workload, page_size=page_size)


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
