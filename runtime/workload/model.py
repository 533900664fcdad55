"""Workloads as data: sessions of turns whose prompts are made on demand.

It must not know schedulers, caches or files. A later turn's prompt names the earlier outputs it
contains (`OutputOf`), because they exist only once the simulation has generated them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from radixcache.namespace import Namespace
from runtime.clock import LONGEST_S
from runtime.errors import WorkloadError

TokenArray: TypeAlias = npt.NDArray[np.int32]

FRESH_TOKEN_BASE: Final = 2**30
"""Token ids from here on are kept for generated outputs; workloads stay below."""


class Segment(Protocol):
    """A run of prompt tokens, made on demand."""

    def tokens(self) -> TokenArray:
        """The tokens, `[len], int32, contiguous`. The caller must not write into them."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """Tokens that are given.

    Attributes:
        ids: `[num_tokens], int32`, each in [0, `FRESH_TOKEN_BASE`). Not copied: leave it alone.
    """

    ids: TokenArray

    def tokens(self) -> TokenArray:
        """The tokens themselves, no copy."""
        return self.ids

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Trace blocks, expanded on demand: token `i` of block `b` is `b * block_size + i`.

    Attributes:
        block_ids: `[num_blocks], int32`.
        block_size: Tokens a block.
        num_tokens: Tokens in all; the last block may be partial.

    Raises:
        WorkloadError: A block id whose tokens would leave [0, `FRESH_TOKEN_BASE`), or a number of
            blocks that does not go with `num_tokens`.
    """

    block_ids: TokenArray
    block_size: int
    num_tokens: int

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise WorkloadError(f"block_size {self.block_size} must be >= 1")
        needed = -(-self.num_tokens // self.block_size)
        if len(self.block_ids) != needed or self.num_tokens < 0:
            raise WorkloadError(
                f"{self.num_tokens} tokens are {needed} blocks of {self.block_size}, "
                f"not {len(self.block_ids)}"
            )
        if needed:
            limit = FRESH_TOKEN_BASE // self.block_size
            for block_id in (int(self.block_ids.min()), int(self.block_ids.max())):
                if not 0 <= block_id < limit:
                    raise WorkloadError(
                        f"block id {block_id} lies outside [0, {limit}): with {self.block_size} "
                        f"tokens a block, token ids must stay below 2**30"
                    )

    def tokens(self) -> TokenArray:
        """The tokens, freshly made. O(num_tokens)."""
        starts = self.block_ids.astype(np.int32, copy=False) * np.int32(self.block_size)
        offsets = np.arange(self.block_size, dtype=np.int32)
        tokens: TokenArray = np.add.outer(starts, offsets).ravel()
        return tokens[: self.num_tokens]

    def __len__(self) -> int:
        return self.num_tokens


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Runs of consecutive token ids: what long lists of consecutive trace blocks come down to.

    Attributes:
        spans: `[num_spans, 2], int32`: first token id and number of tokens of each run. Every id in
            [0, `FRESH_TOKEN_BASE`), every number >= 1.
        num_tokens: Tokens in all.
    """

    spans: TokenArray
    num_tokens: int

    def tokens(self) -> TokenArray:
        """The tokens, freshly made. O(num_spans + num_tokens)."""
        tokens = np.empty(self.num_tokens, dtype=np.int32)
        filled = 0
        for first, count in self.spans.tolist():
            tokens[filled : filled + count] = np.arange(first, first + count, dtype=np.int32)
            filled += count
        return tokens

    def __len__(self) -> int:
        return self.num_tokens


@dataclass(frozen=True, slots=True)
class OutputOf:
    """What an earlier turn of the same session generated.

    Attributes:
        turn: Number of that turn in its session, from 0.
        num_tokens: Only its first so many tokens; `None`: all.
    """

    turn: int
    num_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of a session.

    Attributes:
        segments: The prompt, in order.
        output_len: Tokens to generate, >= 1.
        after: Turns of the session, with smaller numbers, that must have finished first.
        think_s: Pause between the last of those finishing and this arrival, seconds.
        namespace: Namespace of the request.
        kind: Class of turn, for reports.

    Raises:
        WorkloadError: `output_len` or `think_s` out of range, or no segments.
    """

    segments: tuple[Segment | OutputOf, ...]
    output_len: int
    after: tuple[int, ...] = ()
    think_s: float = 0.0
    namespace: Namespace = None
    kind: str = "turn"

    def __post_init__(self) -> None:
        if self.output_len < 1:
            raise WorkloadError(f"output_len {self.output_len} must be >= 1")
        if not 0 <= self.think_s <= LONGEST_S:
            raise WorkloadError(f"think_s {self.think_s} must be a finite number >= 0, at most {LONGEST_S:g}")
        if not self.segments:
            raise WorkloadError("a turn needs at least one segment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Turns that depend on one another. Turns without `after` arrive at `start_s + think_s`.

    Attributes:
        session_id: Name, unique in the workload.
        start_s: When the session starts, seconds.
        turns: Its requests, numbered from 0.
        tenant: Who it belongs to.

    Raises:
        WorkloadError: `start_s` out of range, no turns, a turn that waits for a later one, or a
            prompt that contains the output of a turn it does not wait for.
    """

    session_id: str
    start_s: float
    turns: tuple[Turn, ...]
    tenant: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.start_s <= LONGEST_S:
            raise WorkloadError(
                f"session {self.session_id}: start_s {self.start_s} must be a finite number >= 0, "
                f"at most {LONGEST_S:g}"
            )
        if not self.turns:
            raise WorkloadError(f"session {self.session_id} has no turns")
        finished_before: list[int] = []
        for number, turn in enumerate(self.turns):
            finished_before.append(self._ancestors(number, turn, finished_before))

    def _ancestors(self, number: int, turn: Turn, finished_before: Sequence[int]) -> int:
        """Bit set of the turns that have finished when `turn` arrives; checks its references."""
        ancestors = 0
        for earlier in turn.after:
            if not 0 <= earlier < number:
                raise WorkloadError(
                    f"session {self.session_id}: turn {number} cannot wait for turn {earlier}"
                )
            ancestors |= finished_before[earlier] | 1 << earlier
        for segment in turn.segments:
            if isinstance(segment, OutputOf) and not (segment.turn >= 0 and ancestors >> segment.turn & 1):
                raise WorkloadError(
                    f"session {self.session_id}: turn {number} contains the output of turn "
                    f"{segment.turn}, which it does not wait for"
                )
        return ancestors


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Sessions and what a reader of the results must know about them.

    Attributes:
        name: Name, for reports.
        sessions: By `start_s`, not falling. May be a lazy sequence.
        notes: Sentences on what was assumed, left out or changed.
        block_size: Tokens a block where the prompts come from block ids: sharing ends there.
    """

    name: str
    sessions: Sequence[Session]
    notes: tuple[str, ...] = ()
    block_size: int | None = None

    @property
    def num_turns(self) -> int:
        """Requests in all. O(sessions)."""
        return sum(len(session.turns) for session in self.sessions)


def prompt_of(turn: Turn, outputs: Mapping[int, TokenArray]) -> TokenArray:
    """The prompt of a turn.

    Args:
        turn: The turn.
        outputs: What earlier turns of its session generated, by turn number.

    Returns:
        `[num_tokens], int32, contiguous`. Read it only: a prompt of one segment may share its
        memory.

    Raises:
        WorkloadError: An output is missing, or shorter than what the prompt contains of it.

    Complexity:
        O(num_tokens).

    Example:
        >>> question = Literal(np.array([1, 2], dtype=np.int32))
        >>> turn = Turn(segments=(question, OutputOf(0), question), output_len=1, after=(0,))
        >>> prompt_of(turn, {0: np.array([9], dtype=np.int32)}).tolist()
        [1, 2, 9, 1, 2]
    """
    parts = [
        _output(outputs, segment) if isinstance(segment, OutputOf) else segment.tokens()
        for segment in turn.segments
    ]
    if len(parts) == 1:
        return np.ascontiguousarray(parts[0], dtype=np.int32)
    return np.concatenate(parts, dtype=np.int32, casting="same_kind")


def _output(outputs: Mapping[int, TokenArray], segment: OutputOf) -> TokenArray:
    output = outputs.get(segment.turn)
    if output is None:
        raise WorkloadError(f"the output of turn {segment.turn} is not there yet")
    if segment.num_tokens is None:
        return output
    if len(output) < segment.num_tokens:
        raise WorkloadError(
            f"turn {segment.turn} generated {len(output)} tokens, but a prompt contains its first "
            f"{segment.num_tokens}"
        )
    return output[: segment.num_tokens]
