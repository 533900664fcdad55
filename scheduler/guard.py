"""Who may call a scheduler, and when: one thread, and no observer while it is being told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler.errors import ReentrantCall, WrongThread


class Guard:
    """Remembers who called first, and whether observers are being told."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._is_telling = False

    def require(self) -> None:
        """Let the owner pass.

        Raises:
            WrongThread: Called from a second thread.
            ReentrantCall: Called by an observer that is being told.
        """
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        elif thread != self._thread:
            raise WrongThread(f"the scheduler belongs to thread {self._thread}, not to {thread}")
        if self._is_telling:
            raise ReentrantCall("an observer may read while it is told of a request, not call the scheduler")

    @contextmanager
    def telling(self) -> Iterator[None]:
        """While observers are told."""
        self._is_telling = True
        try:
            yield
        finally:
            self._is_telling = False
