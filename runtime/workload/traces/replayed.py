"""The prompts of a workload with made-up outputs, as files are written from them. No cache, no scheduler."""

from collections.abc import Iterator, Sequence

import numpy as np

from runtime.errors import WorkloadError
from runtime.workload.model import (
    FRESH_TOKEN_BASE,
    Blocks,
    OutputOf,
    Session,
    TokenArray,
    Workload,
    prompt_of,
)
from runtime.workload.traces.block_tree import BlockTree

_TOKEN_END = 2**31


class Replayed:
    """Makes prompts, and outputs where later prompts contain them: fresh tokens, unlike any others."""

    def __init__(self) -> None:
        self._next = FRESH_TOKEN_BASE
        self._starts: dict[tuple[str, int], int] = {}

    def prompt(self, session: Session, number: int) -> TokenArray:
        """The prompt of a turn, int32, `[num_tokens]`.

        Raises:
            WorkloadError: So many outputs are contained in prompts that token ids run out.
        """
        turn = session.turns[number]
        contained = {segment.turn for segment in turn.segments if isinstance(segment, OutputOf)}
        return prompt_of(turn, {earlier: self.output(session, earlier) for earlier in contained})

    def output(self, session: Session, number: int) -> TokenArray:
        """What a turn generates, int32, `[output_len]`; the same at every call."""
        start = self._starts.setdefault((session.session_id, number), self._next)
        end = start + session.turns[number].output_len
        if start == self._next:
            self._next = end
        if end > _TOKEN_END:
            raise WorkloadError(f"outputs of {end - FRESH_TOKEN_BASE} tokens: their ids would pass 2**31")
        return np.arange(start, end, dtype=np.int32)


class Rechunked:
    """Block ids of token sequences, for any block size.

    Args:
        block_size: Tokens a block.
    """

    def __init__(self, block_size: int) -> None:
        self._tree = BlockTree(block_size)
        self._block_size = block_size
        self._last_tokens = np.empty(0, dtype=np.int32)
        self._last_ids: list[int] = []
        self._last_root: bytes = b""

    def ids(self, tokens: TokenArray, root: bytes = b"") -> list[int]:
        """Ids of the blocks of a sequence, the last of which may be partial.

        Args:
            tokens: `[num_tokens], int32`.
            root: Sequences with different roots share nothing.

        Raises:
            WorkloadError: See `BlockTree.path`.

        Complexity:
            O(num_tokens) in NumPy, and a dictionary step for each block that the sequence before did
            not begin with.
        """
        known = self._known_blocks(tokens) if root == self._last_root else 0
        data, width = tokens[known * self._block_size :].tobytes(), 4 * self._block_size
        blocks = [data[at : at + width] for at in range(0, len(data), width)]
        ids = self._last_ids[:known]
        ids += self._tree.path(blocks, ids[-1] if ids else root)
        self._last_tokens, self._last_ids, self._last_root = tokens, ids, root
        return ids

    def _known_blocks(self, tokens: TokenArray) -> int:
        before = self._last_tokens
        length = min(len(tokens), len(before))
        unlike = np.flatnonzero(tokens[:length] != before[:length])
        return (int(unlike[0]) if len(unlike) else length) // self._block_size


def contained_outputs(session: Session) -> set[int]:
    """Turns whose output a later prompt contains."""
    return {
        segment.turn for turn in session.turns for segment in turn.segments if isinstance(segment, OutputOf)
    }


def plain_blocks(workload: Workload, block_size: int) -> bool:
    """Whether every prompt is one run of blocks of that size, which can be written as it is."""
    return workload.block_size == block_size and all(
        len(turn.segments) == 1
        and isinstance(turn.segments[0], Blocks)
        and turn.segments[0].block_size == block_size
        for session in workload.sessions
        for turn in session.turns
    )


def nominal_times(session: Session) -> Sequence[float]:
    """When each turn arrives if every answer takes no time, seconds."""
    times: list[float] = []
    for turn in session.turns:
        start = max((times[earlier] for earlier in turn.after), default=session.start_s)
        times.append(start + turn.think_s)
    return times


def by_nominal_time(workload: Workload) -> Iterator[tuple[float, Session, int]]:
    """Arrival in seconds, session and number of every turn, by arrival if every answer takes no time."""
    arrivals = [
        (time_s, place, number, session)
        for place, session in enumerate(workload.sessions)
        for number, time_s in enumerate(nominal_times(session))
    ]
    arrivals.sort(key=lambda arrival: arrival[:3])
    return ((time_s, session, number) for time_s, _, number, session in arrivals)
