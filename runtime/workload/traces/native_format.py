"""The project's own trace format: what its lines hold. `TRACE_FORMAT.md` explains it for strangers.

It must not know workloads: it says what a line looks like and whether it agrees with itself.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from radixcache.namespace import Namespace

FORMAT_NAME: Final = "radixcache"
FORMAT_VERSION: Final = 1

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns", "ps"]
UNITS_PER_S: Final[dict[TimeUnit, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12}
"""How many of each time unit make a second."""

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Time: TypeAlias = Count | Annotated[float, msgspec.Meta(ge=0)]
BlockId: TypeAlias = Count | str


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line.

    Attributes:
        format: Always "radixcache".
        version: Version of the format.
        block_size: Tokens a block.
        time_unit: Unit of all times in the file.
        notes: Sentences that a reader of results should know.
    """

    format: Literal["radixcache"] = FORMAT_NAME
    version: Positive = FORMAT_VERSION
    block_size: Positive
    time_unit: TimeUnit = "s"
    notes: list[str] = []


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every other line: one request. Times are in the header's unit.

    Attributes:
        arrival: When it arrived; may be absent where `after` names turns.
        finished: When its last token was there.
        input_length: Tokens of the prompt.
        output_length: Tokens generated.
        hash_ids: Ids of the blocks of the prompt, the last of which may be partial.
        output_hash_ids: Ids of the blocks of prompt and output together, from the block in which
            the prompt ends (if that is partial) to the last, which may be partial.
        session: Name of the session that it belongs to.
        turn: Its number there.
        after: Turns of the session that must have finished before it arrives.
        think: Pause between the last of them finishing and its arrival.
        tenant: Who it belongs to.
        namespace: What keeps its KV apart, besides its tokens.
        kind: Class of request.
    """

    arrival: Time | None = None
    finished: Time | None = None
    input_length: Positive
    output_length: Count
    hash_ids: list[BlockId]
    output_hash_ids: list[BlockId] | None = None
    session: str | None = None
    turn: Count | None = None
    after: list[Count] | None = None
    think: Time | None = None
    tenant: str | None = None
    namespace: str | list[str | None] | None = None
    kind: str = "request"

    @property
    def namespace_parts(self) -> Namespace:
        """The namespace as the cache takes it."""
        return tuple(self.namespace) if isinstance(self.namespace, list) else self.namespace


def faults_of(request: TraceRequest, block_size: int) -> Iterator[str]:
    """In what a line contradicts itself, one sentence each.

    Args:
        request: The line.
        block_size: Tokens a block.
    """
    in_prompt = _num_blocks(request.input_length, block_size)
    if len(request.hash_ids) != in_prompt:
        yield (
            f"input_length {request.input_length} needs {in_prompt} hash_ids of {block_size} tokens, "
            f"not {len(request.hash_ids)}"
        )
    if request.output_hash_ids is not None:
        num_tokens = request.input_length + request.output_length
        added = _num_blocks(num_tokens, block_size) - request.input_length // block_size
        if len(request.output_hash_ids) != added:
            yield (
                f"input_length {request.input_length} with output_length {request.output_length} needs "
                f"{added} output_hash_ids of {block_size} tokens, not {len(request.output_hash_ids)}"
            )
    if request.arrival is None and not request.after:
        yield "arrival is missing, and after names no turn to wait for"
    if None not in (request.arrival, request.finished) and request.finished < request.arrival:  # type: ignore[operator]
        yield f"finished {request.finished} is before arrival {request.arrival}"
    if request.think is not None and not request.after:
        yield f"think {request.think} means a pause behind turns, but after names none"
    if request.session is None and (request.turn is not None or request.after is not None):
        yield "turn and after number the turns of a session, but session is missing"
    if request.turn is None and request.after:
        yield f"after {request.after} needs numbered turns, but turn is missing"


def _num_blocks(num_tokens: int, block_size: int) -> int:
    return -(-num_tokens // block_size)
