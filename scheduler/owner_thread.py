"""One thread at a time owns a scheduler: the first that calls it."""

import threading

from scheduler.errors import WrongThread


class OwnerThread:
    """Remembers who called first."""

    def __init__(self) -> None:
        self._thread: int | None = None

    def require(self) -> None:
        """Let the owner pass.

        Raises:
            WrongThread: Called from a second thread.
        """
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        elif thread != self._thread:
            raise WrongThread(f"the scheduler belongs to thread {self._thread}, not to {thread}")
