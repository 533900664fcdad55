"""Writes the Mooncake trace format, which knows single requests with recorded arrival times only."""

from collections.abc import Iterator

from radixcache.namespace import namespace_key
from runtime.workload.model import Blocks, OutputOf, Workload
from runtime.workload.traces.mooncake import BLOCK_SIZE, MooncakeLine
from runtime.workload.traces.replayed import Rechunked, Replayed, by_nominal_time, plain_blocks

_MS_PER_S = 1000


def mooncake_lines(workload: Workload) -> Iterator[MooncakeLine]:
    """The requests of a workload by arrival; see `mooncake_losses` for what the format cannot say.

    Raises:
        WorkloadError: More different blocks than there are ids for.

    Complexity:
        O(tokens of all prompts) in NumPy, and one step for each block that is new.
    """
    chunks, replayed = Rechunked(BLOCK_SIZE), Replayed()
    as_it_is = plain_blocks(workload, BLOCK_SIZE) and _num_namespaces(workload) == 1
    for time_s, session, number in by_nominal_time(workload):
        turn = session.turns[number]
        blocks = turn.segments[0]
        if as_it_is and isinstance(blocks, Blocks):
            ids, length = blocks.block_ids.tolist(), len(blocks)
        else:
            prompt = replayed.prompt(session, number)
            ids, length = chunks.ids(prompt, namespace_key(turn.namespace)), len(prompt)
        time_ms = round(time_s * _MS_PER_S, 6)
        yield MooncakeLine(
            timestamp=int(time_ms) if time_ms.is_integer() else time_ms,
            input_length=length,
            output_length=turn.output_len,
            hash_ids=ids,
        )


def mooncake_losses(workload: Workload) -> list[str]:
    """What of a workload the format cannot say, one sentence each."""
    turns = [turn for session in workload.sessions for turn in session.turns]
    losses = []
    if num_waiting := sum(bool(turn.after) for turn in turns):
        losses.append(f"{num_waiting} requests wait for others; they arrive as if answers took no time.")
    if any(isinstance(segment, OutputOf) for turn in turns for segment in turn.segments):
        losses.append("Outputs that later prompts contain are written as blocks of these prompts only.")
    if any(session.tenant is not None for session in workload.sessions):
        losses.append("Tenants are left out.")
    if _num_namespaces(workload) > 1:
        losses.append("Namespaces are left out; their blocks have ids of their own.")
    return losses


def _num_namespaces(workload: Workload) -> int:
    return len({turn.namespace for session in workload.sessions for turn in session.turns})
