"""Traces without what they were made of: lengths, times and who shares with whom stay, nothing else."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from radixcache.errors import InvalidArgument
from radixcache.namespace import namespace_key
from runtime.workload.traces.keyed import KeyedHash, text_of
from runtime.workload.traces.latest import LatestPrompts
from runtime.workload.traces.native_format import UNITS_PER_S, BlockId, Time, TraceHeader, TraceRequest

NOTE: Final = "Anonymised: block ids and names are keyed hashes."


@dataclass(frozen=True, slots=True, kw_only=True)
class AnonymiseOptions:
    """What becomes of the rest.

    Attributes:
        shift: Whether the first arrival becomes 0.
        round_s: Times are rounded down to multiples of this, seconds; 0: they stay.
        keep_kinds: Whether classes of requests keep their names.

    Raises:
        InvalidArgument: `round_s` is negative or no finite number.
    """

    shift: bool = True
    round_s: float = 0.0
    keep_kinds: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.round_s < float("inf"):
            raise InvalidArgument(f"times are rounded to a finite number of seconds >= 0, got {self.round_s}")


def anonymise(
    header: TraceHeader,
    requests: Iterable[TraceRequest],
    key: KeyedHash,
    options: AnonymiseOptions,
    *,
    first_arrival: Time = 0,
) -> tuple[TraceHeader, Iterator[TraceRequest]]:
    """A trace in which nothing can be recognised without the key.

    Ids of blocks become hashes of everything up to the block: of equal blocks only those with equal prefixes
    stay equal, which is all that a prefix cache sees.

    Args:
        header: Header; its notes are dropped.
        requests: Requests, each in agreement with itself.
        key: The secret. With the same one, files can be put together.
        options: What becomes of times and kinds.
        first_arrival: The earliest arrival, which becomes 0 if times are shifted.

    Complexity:
        O(block ids) comparisons, and a hash for each block that is not as in its session's latest prompt.
    """
    times = _Times(header, options, first_arrival)
    kept = TraceHeader(block_size=header.block_size, time_unit=header.time_unit, notes=[NOTE, *times.notes])
    latest: LatestPrompts[list[bytes]] = LatestPrompts()

    def anonymous(request: TraceRequest) -> TraceRequest:
        known = latest.known(request.session, request.hash_ids) or []
        rest = map(_encoded, request.hash_ids[len(known) :])
        prompt = known + key.chain(rest, known[-1] if known else key.root())
        latest.remember(request.session, request.hash_ids, prompt)
        return _anonymous(request, prompt, key, times, options, header.block_size)

    return kept, map(anonymous, requests)


class _Times:
    """Shifts and rounds times, all in the same way, so that their order stays."""

    def __init__(self, header: TraceHeader, options: AnonymiseOptions, first_arrival: Time) -> None:
        self.notes: list[str] = []
        per_s = UNITS_PER_S[header.time_unit]
        self._start: Time = first_arrival if options.shift else 0
        step = options.round_s * per_s
        self._step: Time = int(step) if float(step).is_integer() else step
        if self._start:
            self.notes.append("Times were shifted: the first arrival is 0.")
        if self._step:
            self.notes.append(f"Times were rounded down to multiples of {options.round_s:g} s.")

    def moment(self, time: Time | None) -> Time | None:
        return None if time is None else self.pause(max(0, time - self._start))

    def pause(self, time: Time | None) -> Time | None:
        return time if time is None or not self._step else time // self._step * self._step


def _anonymous(
    request: TraceRequest,
    prompt: list[bytes],
    key: KeyedHash,
    times: _Times,
    options: AnonymiseOptions,
    block_size: int,
) -> TraceRequest:
    """The request with the hashes of its prompt's blocks, and nothing else that could be recognised."""

    def named(what: str, name: str | None) -> str | None:
        return None if name is None else key.label(what, name)

    num_full = request.input_length // block_size
    generated: list[BlockId] | None = None
    if request.output_hash_ids is not None:
        parent = prompt[num_full - 1] if num_full else key.root()
        generated = [*map(text_of, key.chain(map(_encoded, request.output_hash_ids), parent))]
    namespace = request.namespace_parts
    return msgspec.structs.replace(
        request,
        arrival=times.moment(request.arrival),
        finished=times.moment(request.finished),
        think=times.pause(request.think),
        hash_ids=[*map(text_of, prompt)],
        output_hash_ids=generated,
        session=named("session", request.session),
        tenant=named("tenant", request.tenant),
        namespace=None if namespace is None else named("namespace", namespace_key(namespace).hex()),
        kind=request.kind if options.keep_kinds else named("kind", request.kind),
    )


def _encoded(block: BlockId) -> bytes:
    """An id as bytes; 1 and "1" are two."""
    return b"s" + block.encode(errors="surrogatepass") if isinstance(block, str) else b"i%d" % block
