"""Writes the project's own trace format, line by line or from a workload."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import msgspec
import numpy as np

from radixcache.errors import InvalidArgument
from radixcache.namespace import Namespace
from runtime.workload.model import Blocks, Workload
from runtime.workload.traces.native_format import BlockId, TraceHeader, TraceRequest
from runtime.workload.traces.replayed import Rechunked, Replayed, contained_outputs, plain_blocks

DEFAULT_BLOCK_SIZE: Final = 16
"""Tokens a block, where nothing else is said."""


class LineWriter:
    """Appends JSON lines to a new file; bytes depend on what is written alone, packed or not.

    Args:
        path: Where; packed with gzip if the name ends in `.gz`. A file that is there is replaced.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._packed = (
            gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)
            if path.suffix == ".gz"
            else None
        )
        self._encoder = msgspec.json.Encoder()

    def write(self, line: msgspec.Struct) -> None:
        """Append one line."""
        text = self._encoder.encode(line) + b"\n"
        if self._packed is None:
            self._file.write(text)
        else:
            self._packed.write(text)

    def flush(self) -> None:
        """Give everything that was written to the operating system."""
        if self._packed is not None:
            self._packed.flush()
        self._file.flush()

    def close(self) -> None:
        """End the file. Closing twice does nothing."""
        try:
            if self._packed is not None:
                self._packed.close()
        finally:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_lines(path: Path, lines: Iterable[msgspec.Struct]) -> int:
    """Write a whole file, or leave what was there: it is put in place when it is complete.

    Returns:
        Lines written.

    Raises:
        OSError: The file cannot be written.
    """
    part, count = path.with_name(f"part-{path.name}"), 0
    try:
        with LineWriter(part) as writer:
            for line in lines:
                writer.write(line)
                count += 1
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def native_lines(
    workload: Workload, block_size: int | None = None
) -> tuple[TraceHeader, Iterator[TraceRequest]]:
    """A workload as lines of the project's own format, session by session.

    Prompts of blocks of that size keep their ids; others are cut into blocks anew, numbered in the order in
    which they appear.

    Args:
        workload: What to write.
        block_size: Tokens a block, >= 1; by default that of the workload, or `DEFAULT_BLOCK_SIZE`.

    Raises:
        InvalidArgument: `block_size` is below 1.
        WorkloadError: While the lines are made: token ids run out.

    Complexity:
        O(tokens of all prompts) in NumPy, and one step for each block that is new.
    """
    size = block_size if block_size is not None else workload.block_size or DEFAULT_BLOCK_SIZE
    if size < 1:
        raise InvalidArgument(f"block_size is an integer >= 1, got {size}")
    return TraceHeader(block_size=size, notes=list(workload.notes)), _requests(workload, size)


def _requests(workload: Workload, block_size: int) -> Iterator[TraceRequest]:
    as_it_is = plain_blocks(workload, block_size)
    named = any(len(session.turns) > 1 for session in workload.sessions)
    chunks, replayed = Rechunked(block_size), Replayed()
    for session in workload.sessions:
        contained = contained_outputs(session)
        for number, turn in enumerate(session.turns):
            output_ids: list[BlockId] | None = None
            blocks = turn.segments[0]
            if as_it_is and isinstance(blocks, Blocks):
                ids, length = blocks.block_ids.tolist(), len(blocks)
            else:
                prompt = replayed.prompt(session, number)
                ids, length = chunks.ids(prompt), len(prompt)
                if number in contained:
                    both = np.concatenate((prompt, replayed.output(session, number)))
                    output_ids = [*chunks.ids(both)[length // block_size :]]
            yield TraceRequest(
                arrival=None if turn.after else session.start_s + turn.think_s,
                input_length=length,
                output_length=turn.output_len,
                hash_ids=[*ids],
                output_hash_ids=output_ids,
                session=session.session_id if named else None,
                turn=number if named else None,
                after=list(turn.after) if named else None,
                think=turn.think_s if turn.after else None,
                tenant=session.tenant,
                namespace=written_namespace(turn.namespace),
                kind=turn.kind,
            )


def written_namespace(namespace: Namespace) -> str | list[str | None] | None:
    """A namespace as JSON; bytes, which JSON cannot say, as text that begins with `bytes:`.

    Example:
        >>> written_namespace(("model", None, b"salt"))
        ['model', None, 'bytes:73616c74']
    """
    if isinstance(namespace, tuple):
        return [f"bytes:{part.hex()}" if isinstance(part, bytes) else part for part in namespace]
    return f"bytes:{namespace.hex()}" if isinstance(namespace, bytes) else namespace
