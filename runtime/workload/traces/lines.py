"""JSON lines with errors that name file, line and value."""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from runtime.errors import TraceError

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SHOWN: Final = 60

T = TypeVar("T")


def read_bytes(path: Path) -> bytes:
    """The whole file, unpacked if it is gzip, whatever its name.

    Raises:
        TraceError: It is missing, a folder, unreadable, a broken archive, or empty.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise TraceError(path, None, "no such file") from error
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror}") from error
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(path, None, f"is a broken gzip file: {error}") from error
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if not data.strip():
        raise TraceError(path, None, "is empty")
    return data


def numbered_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def decode(decoder: msgspec.json.Decoder[T], text: bytes, path: Path, line: int | None) -> T:
    """One JSON value, checked against the decoder's type.

    Raises:
        TraceError: It is no JSON, CSV for instance, or of another shape; the message quotes the value.
    """
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        first = text.split(b"\n", 1)[0]
        if line in (None, 1) and is_like_csv(first):
            raise TraceError(path, line, f"looks like CSV, but traces are JSON: {shown(first)}") from error
        if isinstance(error, msgspec.ValidationError):
            raise TraceError(path, line, f"{error}{_quoted(text, str(error))}") from error
        raise TraceError(path, line, f"is no JSON ({error}): {shown(text)}") from error


def is_like_csv(line: bytes) -> bool:
    """Whether a line that is no JSON looks like the first one of a table: fields between separators."""
    text = line.decode("utf-8", errors="replace").strip()
    is_text = text.replace("\t", "").isprintable()
    return is_text and not text.startswith(("{", "[")) and any(each in text for each in ",;\t")


def _quoted(text: bytes, message: str) -> str:
    """`: value` for the place that msgspec's message points at, if it points at one."""
    place = re.search(r" - at `\$(.*)`$", message)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return f": {shown(text)}"
    for name, index in re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", place[1] if place else ""):
        try:
            value = value[name] if name else value[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return ""
    return f": {shown(msgspec.json.encode(value))}"


def shown(text: bytes) -> str:
    """The beginning of `text`, printable, on one line."""
    line = text.decode("utf-8", errors="replace")
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
