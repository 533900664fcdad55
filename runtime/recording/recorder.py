"""A recorder that an engine attaches to its scheduler, or calls beside its cache.

It must not know how requests are served, and never stops an engine's scheduler: when something goes wrong,
it falls silent and says so at `close`.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from radixcache import Namespace, Tokens
from radixcache.errors import InvalidArgument, RadixCacheError
from radixcache.namespace import namespace_key
from radixcache.tokens import TokenSource
from runtime.recording.hashing import BlockHasher
from runtime.workload.traces.keyed import KeyedHash
from runtime.workload.traces.native_format import UNITS_PER_S, Time, TimeUnit, TraceHeader, TraceRequest
from runtime.workload.traces.native_writer import LineWriter, written_namespace
from scheduler import Request

NOTE: Final = "Recorded live; block ids are keyed hashes."


class RecordingFailed(RadixCacheError, RuntimeError):
    """The recording broke off at some time; what came later is not in the file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenRequest:
    """A request between `opened` and `closed`.

    Attributes:
        prompt: Its prompt.
        arrival: When it was opened.
        namespace: Its namespace.
        session: Session that it belongs to.
        tenant: Who it belongs to.
        kind: Class of request.
    """

    prompt: Tokens
    arrival: Time
    namespace: Namespace
    session: str | None
    tenant: str | None
    kind: str


class TraceRecorder:
    """Writes a trace in the project's own format while requests are served, a line as each one ends.

    No token leaves the process: blocks, and unless `keep_names` all names, are written as keyed hashes.
    Requests wait in memory only while they are served. One thread.

    Attach it with `scheduler.subscribe(recorder)`, or call `opened` and `closed` beside a cache.

    Args:
        path: The file, replaced if it is there; packed if its name ends in `.gz`.
        key: The secret of the hashes, at least 8 bytes; the same key makes files that can be put together.
        block_size: Tokens a block: the cache's page size, or a divisor of it, loses nothing.
        time_unit: Unit of every `now` that the recorder is given.
        keep_names: Write sessions, tenants and namespaces as they are.
        session_of: Which session a scheduler's request belongs to; by default that is found out from the
            prompts when the file is read.
        kind_of: Class of a scheduler's request.
        notes: Sentences for the header.
        max_open: Requests between `opened` and `closed` at most; the oldest is written as it is when
            another one comes.

    Raises:
        InvalidArgument: The key is too short, or a number or the unit out of range.
        OSError: The file cannot be made.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name, "trace.jsonl")
        >>> with TraceRecorder(path, key=b"keep me secret", block_size=2) as recorder:
        ...     asked = recorder.opened([1, 2, 3], now=0.5)
        ...     recorder.closed(asked, [4], now=0.75)
        >>> print(path.read_text().splitlines()[1][:75])
        {"arrival":0.5,"finished":0.75,"input_length":3,"output_length":1,"hash_ids
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: Path | str,
        *,
        key: bytes,
        block_size: int,
        time_unit: TimeUnit = "s",
        keep_names: bool = False,
        session_of: Callable[[Request], str | None] = lambda _: None,
        kind_of: Callable[[Request], str] = lambda _: "request",
        notes: Iterable[str] = (),
        max_open: int = 65_536,
    ) -> None:
        if block_size < 1 or max_open < 1:
            raise InvalidArgument(
                f"block_size and max_open are integers >= 1, got {block_size} and {max_open}"
            )
        if time_unit not in UNITS_PER_S:
            raise InvalidArgument(f"time_unit is one of {', '.join(UNITS_PER_S)}, got {time_unit!r}")
        self.num_written = 0
        self._key = KeyedHash(key)
        self._hasher = BlockHasher(self._key, block_size)
        self._keep_names = keep_names
        self._session_of = session_of
        self._kind_of = kind_of
        self._max_open = max_open
        self._running: dict[str, Request] = {}
        self._open: dict[OpenRequest, None] = {}
        self._failure: OSError | InvalidArgument | None = None
        self._writer: LineWriter | None = LineWriter(Path(path))
        self._append(TraceHeader(block_size=block_size, time_unit=time_unit, notes=[NOTE, *notes]))

    # Beside a scheduler

    def submitted(self, request: Request, now: float) -> None:
        """See `SchedulerObserver`. O(1)."""
        self._running[request.request_id] = request

    def ended(self, request: Request, now: float) -> None:
        """See `SchedulerObserver`. O(tokens): hashes prompt and output."""
        self._running.pop(request.request_id, None)
        self._try(lambda: self._write_request(request, now))

    # Beside a cache

    def opened(
        self,
        prompt: TokenSource,
        namespace: Namespace = None,
        *,
        now: float,
        session: str | None = None,
        tenant: str | None = None,
        kind: str = "request",
    ) -> OpenRequest:
        """A request arrived.

        Args:
            prompt: Its tokens.
            namespace: Its namespace.
            now: The time.
            session: Session that it belongs to.
            tenant: Who it belongs to; one for each session.
            kind: Class of request.

        Returns:
            What to give to `closed`.

        Raises:
            InvalidArgument: The prompt is empty, or `now` is negative or not finite.
            InvalidTokens, InvalidTokenType: See `radixcache.Tokens`.
        """
        tokens = Tokens(prompt)
        if not len(tokens):
            raise InvalidArgument("a prompt has at least one token, got none")
        request = OpenRequest(
            prompt=tokens,
            arrival=_time(now),
            namespace=namespace,
            session=session,
            tenant=tenant,
            kind=kind,
        )
        if len(self._open) >= self._max_open:
            self._write_open(next(iter(self._open)), Tokens([]), None)
        self._open[request] = None
        return request

    def closed(self, request: OpenRequest, output: TokenSource, *, now: float) -> None:
        """A request has its answer.

        Args:
            request: What `opened` gave; nothing happens if it was written already.
            output: The tokens it generated; may be empty.
            now: The time.

        Raises:
            InvalidArgument: `now` is negative, not finite, or before the arrival.
            InvalidTokens, InvalidTokenType: See `radixcache.Tokens`.

        Complexity:
            O(tokens).
        """
        finished = _time(now)
        if finished < request.arrival:
            raise InvalidArgument(f"a request that arrived at {request.arrival} cannot finish at {finished}")
        if request in self._open:
            self._write_open(request, Tokens(output), finished)

    # The file

    def flush(self) -> None:
        """Give what was written to the operating system."""
        if self._writer is not None:
            self._try(self._writer.flush)

    def close(self) -> None:
        """Write the requests that are still there as they are, and end the file. Twice does nothing.

        Raises:
            RecordingFailed: The file could not be written at some time, or a scheduler's time was no time.
        """
        if self._writer is None:
            return
        for request in list(self._running.values()):
            self._try(partial(self._write_request, request, None))
        for pending in list(self._open):
            self._write_open(pending, Tokens([]), None)
        self._running.clear()
        self._try(self._writer.close)
        self._writer = None
        if self._failure is not None:
            raise RecordingFailed(
                f"the recording ends after {self.num_written} requests: {self._failure}"
            ) from self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write_request(self, request: Request, now: float | None) -> None:
        assert request.submitted_at is not None
        asked = OpenRequest(
            prompt=request.prompt,
            arrival=_time(request.submitted_at),
            namespace=request.namespace,
            session=self._session_of(request),
            tenant=request.client,
            kind=self._kind_of(request),
        )
        self._write(asked, Tokens(request.output), None if now is None else _time(now))

    def _write_open(self, request: OpenRequest, output: Tokens, finished: Time | None) -> None:
        del self._open[request]
        self._write(request, output, finished)

    def _write(self, request: OpenRequest, output: Tokens, finished: Time | None) -> None:
        if self._writer is None or self._failure is not None:
            return
        prompt_ids, output_ids = self._hasher.hashes(request.prompt.data, output.data, request.namespace)
        written = self._append(
            TraceRequest(
                arrival=request.arrival,
                finished=finished,
                input_length=len(request.prompt),
                output_length=len(output),
                hash_ids=[*prompt_ids],
                output_hash_ids=[*output_ids] if output_ids and len(output) else None,
                session=self._name("session", request.session),
                tenant=self._name("tenant", request.tenant),
                namespace=self._namespace(request.namespace),
                kind=request.kind,
            )
        )
        self.num_written += written

    def _name(self, what: str, name: str | None) -> str | None:
        return name if name is None or self._keep_names else self._key.label(what, name)

    def _namespace(self, namespace: Namespace) -> str | list[str | None] | None:
        if namespace is None or self._keep_names:
            return written_namespace(namespace)
        return self._key.label("namespace", namespace_key(namespace).hex())

    def _append(self, line: TraceHeader | TraceRequest) -> bool:
        writer = self._writer
        return writer is not None and self._try(lambda: writer.write(line))

    def _try(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except (OSError, InvalidArgument) as error:
            self._failure = self._failure or error
            return False
        return True


def _time(now: float) -> Time:
    """A time as JSON can say it: NumPy's integers and floats become plain ones."""
    time: Time = int(now) if hasattr(now, "__index__") else float(now)
    if not (math.isfinite(time) and time >= 0):
        raise InvalidArgument(f"a time is a finite number >= 0, got {now}")
    return time
