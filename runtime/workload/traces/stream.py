"""Lines of large files, one at a time, with the same errors as `lines.read_bytes`."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, cast

from runtime.errors import TraceError

_GZIP_MAGIC: Final = b"\x1f\x8b"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def stream_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1; the file is unpacked if it is gzip.

    Raises:
        TraceError: It is missing, a folder, unreadable, a broken archive, or holds no such line.
    """
    found = False
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_unpacked(file), start=1):
                text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                if text.strip():
                    found = True
                    yield number, text.rstrip(b"\r\n")
    except FileNotFoundError as error:
        raise TraceError(path, None, "no such file") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(path, None, f"is a broken gzip file: {error}") from error
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror}") from error
    if not found:
        raise TraceError(path, None, "is empty")


def _unpacked(file: BinaryIO) -> BinaryIO:
    packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    return cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
