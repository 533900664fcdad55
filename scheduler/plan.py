"""What one step computes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from radixcache import PageCopy, Tokens
from scheduler.request import Request


class Row(NamedTuple):
    """One request's part of a step.

    Attributes:
        request: Whose. Its `sequence` gives the page table and the slots.
        start: Position of the first token to compute; that many tokens have KV.
        extend_len: Known tokens to compute, >= 1, or 0 where copies brought them all.
        max_tokens: Tokens it may generate: 0 while known tokens remain, 1 normally, more where steps are
            coalesced or speculated. Pages are reserved for all of them but the last.
    """

    request: Request
    start: int
    extend_len: int
    max_tokens: int


class Decodes(NamedTuple):
    """Requests that compute one token a step and nothing else, counted together.

    Attributes:
        num_rows: How many.
        context: Tokens with KV before the first step, summed over them.
        num_steps: Steps planned as one.
    """

    num_rows: int = 0
    context: int = 0
    num_steps: int = 1


_NO_DECODES: Final = Decodes()


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step computes, in rows, and what has to be copied before.

    Attributes:
        number: Plans made before this one.
        rows: One a request, decodes first.
        copies: Page copies to run before the step.
        preempted: Requests thrown back to make room.
        failed: Requests that ended because they can never go on.
        decodes: Besides the rows, where the scheduler was given an `output_source`.
    """

    number: int
    rows: tuple[Row, ...]
    copies: tuple[PageCopy, ...]
    preempted: tuple[Request, ...]
    failed: tuple[Request, ...]
    decodes: Decodes = _NO_DECODES

    @property
    def num_tokens(self) -> int:
        """Known tokens that are computed."""
        return sum(row.extend_len for row in self.rows) + self.decodes.num_rows

    @property
    def num_steps(self) -> int:
        """Steps that are planned as one."""
        return max(self.decodes.num_steps, *(row.max_tokens for row in self.rows), 0) if self else 0

    def __bool__(self) -> bool:
        return bool(self.rows or self.decodes.num_rows)


Outputs: TypeAlias = "Mapping[str, Sequence[int] | Tokens]"
"""Generated tokens by request id: 1 to `max_tokens` for each row that generates."""

Horizon: TypeAlias = Callable[[Decodes], int]
"""Given a step that only decodes, how many such steps may be planned at once."""

OutputSource: TypeAlias = Callable[[Request, int, int], Tokens]
"""The tokens that a request generates at output positions [start, stop), where that is known before."""
