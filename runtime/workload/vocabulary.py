"""Workloads in the vocabulary of a model: every token id becomes one that the model knows."""

from dataclasses import dataclass, replace

import numpy as np

from runtime.errors import WorkloadError
from runtime.workload.model import OutputOf, Segment, TokenArray, Workload


@dataclass(frozen=True, slots=True, eq=False)
class _Mapped:
    """A segment whose ids are mapped when they are asked for."""

    segment: Segment
    vocab: int

    def tokens(self) -> TokenArray:
        return map_tokens(self.segment.tokens(), self.vocab)

    def __len__(self) -> int:
        return len(self.segment)


def map_tokens(tokens: TokenArray, vocab: int) -> TokenArray:
    """Ids of a model for ids of a workload; an id below `vocab` stays as it is.

    The others are hashed (the finaliser of SplitMix64; Steele, Lea and Flood, 2014), so that equal ids become
    equal ones and unequal ids become equal only by chance: that two different pages of 16 tokens become one
    has a chance of `vocab` ** -16.

    Args:
        tokens: `[num_tokens], int32`, ids >= 0.
        vocab: Ids that the model knows, >= 1.

    Returns:
        `[num_tokens], int32`, each in [0, vocab).

    Complexity:
        O(num_tokens).

    Example:
        >>> map_tokens(np.array([5, 1_000_000, 5, 1_000_000], dtype=np.int32), 100).tolist()
        [5, 34, 5, 34]
    """
    mixed = tokens.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    mapped: TokenArray = np.where(tokens < vocab, tokens, (mixed % np.uint64(vocab)).astype(np.int32))
    return mapped


def in_vocabulary(workload: Workload, vocab: int) -> Workload:
    """The same workload in the vocabulary of a model; outputs are the model's own already.

    Equal prompts stay equal, and so do common prefixes. Tokens are mapped when they are asked for.

    Raises:
        WorkloadError: The model knows no token.

    Complexity:
        O(segments).
    """
    if vocab < 1:
        raise WorkloadError(f"vocab {vocab} must be >= 1")

    def mapped(segment: Segment | OutputOf) -> Segment | OutputOf:
        return segment if isinstance(segment, OutputOf) else _Mapped(segment, vocab)

    sessions = tuple(
        replace(
            session,
            turns=tuple(replace(turn, segments=tuple(map(mapped, turn.segments))) for turn in session.turns),
        )
        for session in workload.sessions
    )
    note = (
        f"Token ids from {vocab} on were hashed into the model's vocabulary of {vocab}: equal prefixes stay "
        "equal, and the text means nothing."
    )
    return replace(workload, sessions=sessions, notes=(*workload.notes, note))
