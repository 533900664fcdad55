"""The project's own trace format as workloads; `TRACE_FORMAT.md` explains it for strangers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from runtime.errors import TraceError, WorkloadError
from runtime.workload.model import Blocks, OutputOf, Segment, Session, Turn, Workload
from runtime.workload.traces.block_tree import ROOT, BlockTree
from runtime.workload.traces.native_format import UNITS_PER_S, TraceHeader
from runtime.workload.traces.native_links import Linked, Linker
from runtime.workload.traces.native_scan import NumberedRequest, read_requests, without_blocks
from runtime.workload.traces.notes import note_empty
from runtime.workload.traces.options import TraceOptions

NOTE_LINKED: Final = (
    "{linked} of {all} prompts contain recorded output; the replay puts there what it generates itself, "
    "known in whole blocks of {block_size} tokens."
)


def load_native(path: Path, options: TraceOptions) -> Workload:  # noqa: ARG001  # nothing is open
    """The requests as sessions: those that the file names, and others by whose output they contain.

    Args:
        path: The file, plain or gzip.
        options: Not used: the format leaves nothing open.

    Raises:
        TraceError: See `runtime.workload.traces`.

    Complexity:
        O(lines + block ids); see `Linker.link`.
    """
    header, lines = read_requests(path)
    requests = list(_with_paths(lines, header.block_size, path))
    sessions = [_session(group, header, path) for group in _groups(requests, header)]
    sessions.sort(key=lambda session: session.start_s)
    return Workload(
        name=path.name,
        sessions=tuple(sessions),
        notes=tuple(_notes(header, requests, sessions)),
        block_size=header.block_size,
    )


def _with_paths(lines: Iterable[NumberedRequest], block_size: int, path: Path) -> Iterator[Linked]:
    """Requests with numbers in place of block ids."""
    tree = BlockTree(block_size)
    for each in lines:
        request = each.request
        try:
            prompt = tree.prompt(request.hash_ids, request.session)
            num_full = request.input_length // block_size
            num_filled = (request.input_length + request.output_length) // block_size - num_full
            parent = int(prompt[num_full - 1]) if num_full else ROOT
            generated = tree.path((request.output_hash_ids or [])[:num_filled], parent)
        except WorkloadError as error:
            raise TraceError(path, each.line, str(error)) from error
        yield Linked(each.line, without_blocks(each).request, prompt, np.array(generated, dtype=np.int32))


def _groups(requests: list[Linked], header: TraceHeader) -> list[list[Linked]]:
    """Linked requests, session by session, in the order of the file; places count within each."""
    named: defaultdict[str | None, list[Linked]] = defaultdict(list)
    for each in requests:
        named[each.request.session].append(each)
    groups: list[list[Linked]] = []
    for name, members in named.items():
        linker = Linker(
            header.block_size,
            is_session=name is not None,
            has_outputs=any(len(member.generated) for member in members),
        )
        for member in sorted(members, key=_order):
            linker.link(member)
        groups += [list(linker.members())] if name is not None else _components(linker)
    return sorted(groups, key=lambda group: min(member.line for member in group))


def _order(each: Linked) -> tuple[float, float]:
    request = each.request
    return (request.turn if request.turn is not None else 0, request.arrival or 0)


def _components(linker: Linker) -> list[list[Linked]]:
    """Requests that name no session, by whose output they contain; places are counted anew."""
    groups: list[list[Linked]] = []
    found: list[tuple[list[Linked], int]] = []
    for member in linker.members():
        if member.owner is None:
            group: list[Linked] = []
            groups.append(group)
        else:
            group, owner = found[member.owner]
            member.owner, member.after = owner, (owner,)
        found.append((group, len(group)))
        group.append(member)
    return groups


def _session(members: list[Linked], header: TraceHeader, path: Path) -> Session:
    per_s = UNITS_PER_S[header.time_unit]
    start = min(member.request.arrival or 0 for member in members if not member.after)
    segments: list[tuple[Segment | OutputOf, ...]] = []
    turns = []
    for member in members:
        request = member.request
        segments.append(_segments(member, members, segments, header.block_size))
        pause = member.pause if member.after else (request.arrival or 0) - start
        turns.append(
            Turn(
                segments=segments[-1],
                output_len=max(request.output_length, 1),
                after=member.after,
                think_s=pause / per_s,
                namespace=request.namespace_parts,
                kind=request.kind,
            )
        )
    first = members[0]
    name = first.request.session
    try:
        return Session(
            session_id=f"request-{first.line}" if name is None else name,
            start_s=start / per_s,
            turns=tuple(turns),
            tenant=first.request.tenant,
        )
    except WorkloadError as error:
        raise TraceError(path, first.line, str(error)) from error


def _segments(
    member: Linked,
    members: list[Linked],
    earlier: list[tuple[Segment | OutputOf, ...]],
    block_size: int,
) -> tuple[Segment | OutputOf, ...]:
    """The prompt: what its owner was asked, what that answered, and the blocks behind."""
    before: tuple[Segment | OutputOf, ...] = ()
    if member.owner is not None:
        generated = member.num_known * block_size - members[member.owner].request.input_length
        before = (*earlier[member.owner], OutputOf(member.owner, generated))
    num_tokens = member.request.input_length - member.num_known * block_size
    if not num_tokens:
        return before
    return (*before, Blocks(member.path[member.num_known :], block_size, num_tokens))


def _notes(header: TraceHeader, requests: list[Linked], sessions: list[Session]) -> list[str]:
    notes = list(header.notes)
    turns = [turn for session in sessions for turn in session.turns]
    linked = sum(any(isinstance(segment, OutputOf) for segment in turn.segments) for turn in turns)
    if linked:
        notes.append(NOTE_LINKED.format(linked=linked, all=len(turns), block_size=header.block_size))
    empty = sum(not each.request.output_length for each in requests)
    if empty:
        notes.append(note_empty(empty))
    return notes
