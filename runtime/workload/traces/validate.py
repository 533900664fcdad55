"""Everything that is wrong with a trace, where its format can be read line by line."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from radixcache.errors import UnknownName
from runtime.errors import TraceError
from runtime.workload.traces.lines import decode, numbered_lines, read_bytes
from runtime.workload.traces.mooncake import MooncakeLine, check_line
from runtime.workload.traces.native_format import FORMAT_NAME
from runtime.workload.traces.native_scan import violations
from runtime.workload.traces.options import TraceOptions
from runtime.workload.traces.registry import TRACE_FORMATS, load_trace


def violations_of(path: Path, trace_format: str, limit: int, options: TraceOptions) -> list[TraceError]:
    """What is wrong with a trace, by line, `limit` at most; nothing if it can be loaded.

    Formats that are not read line by line give the first violation only.

    Args:
        path: The trace.
        trace_format: A name in `TRACE_FORMATS`.
        limit: Violations at most, >= 1.
        options: Choices where the trace is silent.

    Raises:
        UnknownName: No such format.
    """
    if trace_format not in TRACE_FORMATS:
        raise UnknownName("trace format", trace_format, TRACE_FORMATS)
    by_line = _BY_LINE.get(trace_format)
    try:
        found = by_line(path, limit) if by_line is not None else []
        if not found:
            load_trace(path, trace_format, options=options)
    except TraceError as error:
        return [error]
    return found


def _mooncake_violations(path: Path, limit: int) -> list[TraceError]:
    decoder = msgspec.json.Decoder(MooncakeLine)
    found: list[TraceError] = []
    for number, text in numbered_lines(read_bytes(path)):
        try:
            check_line(decode(decoder, text, path, number), path, number)
        except TraceError as error:
            found.append(error)
            if len(found) >= limit:
                break
    return found


_BY_LINE: Final[Mapping[str, Callable[[Path, int], list[TraceError]]]] = {
    FORMAT_NAME: violations,
    "mooncake": _mooncake_violations,
}
