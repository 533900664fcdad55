"""Which loader reads which trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from radixcache.errors import UnknownName
from runtime.errors import TraceError
from runtime.workload.model import Workload
from runtime.workload.traces.agentic import load_agentic
from runtime.workload.traces.chat_messages import load_chat_messages
from runtime.workload.traces.lines import is_like_csv, read_bytes, shown
from runtime.workload.traces.mooncake import load_mooncake
from runtime.workload.traces.native import load_native
from runtime.workload.traces.options import TraceOptions
from runtime.workload.traces.stream import stream_lines


class TraceLoader(Protocol):
    """Reads one format."""

    def __call__(self, path: Path, options: TraceOptions) -> Workload:
        """The workload in `path`; raises `TraceError`."""
        ...


CHAT_MESSAGES: Final = "chat-messages"

TRACE_FORMATS: Final[Mapping[str, TraceLoader]] = {
    "mooncake": load_mooncake,
    "agentic": load_agentic,
    CHAT_MESSAGES: load_chat_messages,
    "radixcache": load_native,
}

_TELLING_KEYS: Final = {
    "mooncake": {"timestamp", "input_length"},
    "agentic": {"requests", "block_size"},
    CHAT_MESSAGES: {"messages"},
    "radixcache": {"format", "block_size"},
}
"""Keys of a format's first object that no other format has."""


def load_trace(
    path: Path | str, trace_format: str | None = None, *, options: TraceOptions | None = None
) -> Workload:
    """The workload recorded in a file.

    Args:
        path: The trace: a file, plain or gzip, or a folder of agentic sessions.
        trace_format: A name in `TRACE_FORMATS`; by default found out from the first object.
        options: Choices where the trace is silent.

    Raises:
        TraceError: The trace cannot be read, or its format is none of these.
        UnknownName: No such format; the message offers the nearest names.
    """
    path = Path(path)
    if trace_format is None:
        trace_format = sniff_format(path)
    if trace_format not in TRACE_FORMATS:
        raise UnknownName("trace format", trace_format, TRACE_FORMATS)
    return TRACE_FORMATS[trace_format](path, options or TraceOptions())


def sniff_format(path: Path) -> str:
    """Name of the format of a trace, by the keys of its first object.

    Raises:
        TraceError: The trace cannot be read, or its format is none of `TRACE_FORMATS`.
    """
    if path.is_dir():
        return "agentic"
    number, first = next(stream_lines(path))
    text = read_bytes(path) if ".json" in path.suffixes else first
    known = f"no trace of a known format ({', '.join(TRACE_FORMATS)})"
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if is_like_csv(first):
            reason = f"looks like CSV and is {known}, all of which are JSON: {shown(first)}"
            raise TraceError(path, number, reason) from error
        raise TraceError(path, number, f"is no JSON ({error}): {shown(first)}") from error
    if isinstance(value, dict):
        for name, keys in _TELLING_KEYS.items():
            if keys <= value.keys():
                return name
    raise TraceError(path, number, f"is {known}: {shown(first)}")
