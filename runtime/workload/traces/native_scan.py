"""Reads files of the project's own format line by line, and finds everything that is wrong with them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from runtime.errors import TraceError
from runtime.workload.traces.lines import decode
from runtime.workload.traces.native_format import FORMAT_VERSION, TraceHeader, TraceRequest, faults_of
from runtime.workload.traces.stream import stream_lines


class _AnyHeader(msgspec.Struct):
    """What tells a header from other lines, whatever its version."""

    format: str
    version: int


class NumberedRequest(NamedTuple):
    """A request and the line it stands on."""

    line: int
    request: TraceRequest


def scan(path: Path) -> tuple[TraceHeader, Iterator[NumberedRequest | TraceError]]:
    """The header, and each further line or what is wrong with it.

    Raises:
        TraceError: The file cannot be read, or its first line is no header of a known version.
    """
    lines = stream_lines(path)
    number, text = next(lines)
    decode(msgspec.json.Decoder(_AnyHeader), text, path, number)
    header = decode(msgspec.json.Decoder(TraceHeader), text, path, number)
    if header.version != FORMAT_VERSION:
        reason = f"version {header.version} is not known, only {FORMAT_VERSION} is"
        raise TraceError(path, number, reason)
    return header, _requests(lines, path, header.block_size)


def _requests(
    lines: Iterable[tuple[int, bytes]], path: Path, block_size: int
) -> Iterator[NumberedRequest | TraceError]:
    decoder = msgspec.json.Decoder(TraceRequest)
    for number, text in lines:
        try:
            request = decode(decoder, text, path, number)
        except TraceError as error:
            yield error
            continue
        faults = [TraceError(path, number, fault) for fault in faults_of(request, block_size)]
        yield from faults
        if not faults:
            yield NumberedRequest(number, request)


def read_requests(path: Path) -> tuple[TraceHeader, Iterator[NumberedRequest]]:
    """Header and requests of a file that is as it should be.

    Raises:
        TraceError: The first violation, of a line at once, of a session behind the last line.
    """
    header, found = scan(path)
    return header, _checked(found, path)


def _checked(found: Iterable[NumberedRequest | TraceError], path: Path) -> Iterator[NumberedRequest]:
    members: list[NumberedRequest] = []
    empty = True
    for each in found:
        if isinstance(each, TraceError):
            raise each
        empty = False
        if each.request.session is not None:
            members.append(without_blocks(each))
        yield each
    if empty:
        raise TraceError(path, None, "holds no request")
    for error in session_faults(members, path):
        raise error


def without_blocks(each: NumberedRequest) -> NumberedRequest:
    """The line without its block ids, which are nearly all of it."""
    return NumberedRequest(
        each.line, msgspec.structs.replace(each.request, hash_ids=[], output_hash_ids=None)
    )


def violations(path: Path, limit: int) -> list[TraceError]:
    """What is wrong with a file, by line, `limit` at most.

    What sessions contradict each other in is looked for where every line agrees with itself.

    Raises:
        TraceError: The file cannot be read, or its first line is no header of a known version.
    """
    _, found = scan(path)
    requests: list[NumberedRequest] = []
    wrong: list[TraceError] = []
    for each in found:
        if isinstance(each, TraceError):
            wrong.append(each)
            if len(wrong) >= limit:
                return wrong
        else:
            requests.append(without_blocks(each))
    if not wrong and not requests:
        return [TraceError(path, None, "holds no request")]
    return wrong or list(islice(session_faults(requests, path), limit))


def session_faults(requests: Iterable[NumberedRequest], path: Path) -> Iterator[TraceError]:
    """Where lines of one session contradict each other, session by session."""
    sessions: defaultdict[str, list[NumberedRequest]] = defaultdict(list)
    for each in requests:
        if each.request.session is not None:
            sessions[each.request.session].append(each)
    for name, members in sessions.items():
        for line, fault in _faults_within(members):
            yield TraceError(path, line, f"session {name!r}: {fault}")


def _faults_within(members: list[NumberedRequest]) -> Iterator[tuple[int, str]]:
    first = members[0]
    lines = {member.request.turn: member.line for member in reversed(members)}
    for line, request in members:
        if request.tenant != first.request.tenant:
            yield (
                line,
                f"tenant {request.tenant!r} is not {first.request.tenant!r}, as in line {first.line}",
            )
        if (request.turn is None) != (first.request.turn is None):
            yield line, f"turn is {request.turn}, but in line {first.line} it is {first.request.turn}"
        elif request.turn is not None and lines[request.turn] != line:
            yield line, f"turn {request.turn} stands in line {lines[request.turn]}, too"
        for earlier in request.after or ():
            if request.turn is not None and earlier >= request.turn:
                yield line, f"turn {request.turn} cannot wait for turn {earlier}: it is not before it"
            elif earlier not in lines:
                yield line, f"turn {request.turn} waits for turn {earlier}, which is not there"
