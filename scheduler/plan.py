"""What one step computes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What one step computes, in rows, and what has to be copied before.

    Attributes:
        number: Plans made before this one.
        rows: One a request, decodes first.
        copies: Page copies to run before the step.
        preempted: Requests thrown back to make room.
        failed: Requests that ended because they can never go on.
    """

    number: int
    rows: tuple[Row, ...]
    copies: tuple[PageCopy, ...]
    preempted: tuple[Request, ...]
    failed: tuple[Request, ...]

    @property
    def num_tokens(self) -> int:
        """Known tokens that are computed."""
        return sum(row.extend_len for row in self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)


Outputs: TypeAlias = "Mapping[str, Sequence[int] | Tokens]"
"""Generated tokens by request id: 1 to `max_tokens` for each row that generates."""

Horizon: TypeAlias = Callable[[Sequence[Row]], int]
"""Given the rows of a step that only decodes, how many such steps may be planned at once."""
