"""The Mooncake trace format: one request a line, prompts as chains of global 512-token blocks.

Source: Qin et al., "Mooncake", FAST 2025, and the traces published with it.
"""

from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np

from runtime.errors import TraceError
from runtime.workload.model import FRESH_TOKEN_BASE, Blocks, Session, Turn, Workload
from runtime.workload.traces.lines import decode, numbered_lines, read_bytes
from runtime.workload.traces.notes import note_empty
from runtime.workload.traces.options import TraceOptions

BLOCK_SIZE: Final = 512
MAX_BLOCK_ID: Final = FRESH_TOKEN_BASE // BLOCK_SIZE - 1

NOTE_OUTPUTS: Final = (
    "Outputs carry no token ids in this format: they are fresh tokens, which occupy the cache and "
    "are never hit."
)


class MooncakeLine(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        timestamp: Arrival, milliseconds.
        input_length: Prompt tokens.
        output_length: Tokens generated.
        hash_ids: Block ids of the prompt, the last block may be partial.
    """

    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: Annotated[int, msgspec.Meta(ge=1)]
    output_length: Annotated[int, msgspec.Meta(ge=0)]
    hash_ids: list[Annotated[int, msgspec.Meta(ge=0)]]


def load_mooncake(path: Path, options: TraceOptions) -> Workload:  # noqa: ARG001  # nothing is open
    """The requests as sessions of one turn each, prompts unexpanded.

    Requests with equal timestamps keep the order of the file. Should timestamps fall, requests are sorted
    by them (stably) and a note says so.

    Args:
        path: The file, plain or gzip.
        options: Not used: the format leaves nothing open.

    Raises:
        TraceError: See `runtime.workload.traces`.

    Complexity:
        O(lines + block ids); a request takes some hundred bytes and 4 bytes a block id.
    """
    decoder = msgspec.json.Decoder(MooncakeLine)
    num_empty = 0
    sessions: list[Session] = []
    for number, text in numbered_lines(read_bytes(path)):
        line = decode(decoder, text, path, number)
        check_line(line, path, number)
        num_empty += line.output_length == 0
        prompt = Blocks(np.array(line.hash_ids, dtype=np.int32), BLOCK_SIZE, line.input_length)
        turn = Turn(segments=(prompt,), output_len=max(line.output_length, 1), kind="request")
        session_id = f"request-{number}"
        sessions.append(Session(session_id=session_id, start_s=line.timestamp / 1000, turns=(turn,)))
    notes = [NOTE_OUTPUTS]
    if num_empty:
        notes.append(note_empty(num_empty))
    if any(a.start_s > b.start_s for a, b in pairwise(sessions)):
        sessions.sort(key=lambda session: session.start_s)
        notes.append("The file's timestamps fall in places: requests were sorted by timestamp.")
    return Workload(name=path.name, sessions=tuple(sessions), notes=tuple(notes), block_size=BLOCK_SIZE)


def check_line(line: MooncakeLine, path: Path, number: int) -> None:
    """Refuse a request whose blocks do not go with its length.

    Raises:
        TraceError: See `runtime.workload.traces`.
    """
    expected = -(-line.input_length // BLOCK_SIZE)
    if len(line.hash_ids) != expected:
        raise TraceError(
            path,
            number,
            f"input_length {line.input_length} needs {expected} hash_ids of {BLOCK_SIZE} tokens, "
            f"not {len(line.hash_ids)}",
        )
    largest = max(line.hash_ids)
    if largest > MAX_BLOCK_ID:
        raise TraceError(
            path,
            number,
            f"hash id {largest} is above {MAX_BLOCK_ID}: its token ids would pass 2**30",
        )
