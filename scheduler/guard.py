"""Who may call a scheduler, and when: one thread, one call at a time, none once one broke off halfway."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from radixcache.observer_errors import ObserverErrors
from scheduler.errors import Interrupted, ReentrantCall, WrongThread
from scheduler.inner_observer import InnerObserver


class Guard:
    """Remembers who called first, which call is going on, and which one broke off halfway.

    Args:
        errors: What observers raise; held back while a call is going on.

    Attributes:
        errors: The same.
        verb: The call that is going on; `None` between calls.
        is_changing: Whether that call has begun to change anything: it must not break off from then on.
        broken_by: The call that broke off, and what it raised.
    """

    def __init__(self, errors: ObserverErrors) -> None:
        self.errors = errors
        self.verb: str | None = None
        self.is_changing = False
        self.broken_by: tuple[str, BaseException] | None = None
        self._thread: int | None = None

    def require(self) -> None:
        """Let the owner pass.

        Raises:
            WrongThread: Called from a second thread.
            ReentrantCall: Called from within a call, as by an observer that is being told.
            Interrupted: A call broke off halfway.
        """
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        elif thread != self._thread:
            raise WrongThread(f"the scheduler belongs to thread {self._thread}, not to {thread}")
        if self.verb is not None:
            raise ReentrantCall(
                f"an observer may read while it is told, not call the scheduler, which is within {self.verb}"
            )
        if self.broken_by is not None:
            raise Interrupted(*self.broken_by)

    def settle(self, verb: str) -> None:
        """A call is complete, and observers raised in it: now that goes on.

        Raises:
            BaseException: What an observer raised first.
        """
        for observer, error in self.errors.noted:
            if isinstance(observer, InnerObserver):
                self.broken_by = verb, error
        self.errors.settle()


class _Guarded(Protocol):
    _guard: Guard


_G = TypeVar("_G", bound=_Guarded)
_P = ParamSpec("_P")
_R = TypeVar("_R")


def guarded(method: Callable[Concatenate[_G, _P], _R]) -> Callable[Concatenate[_G, _P], _R]:
    """A verb of a scheduler, that nobody may call from within another.

    It sets `is_changing` once it has refused what it refuses. Whatever escapes from then on has left things
    half done, and every later call says so.
    """
    verb = method.__name__

    @wraps(method)
    def call(self: _G, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        guard = self._guard
        guard.require()
        errors = guard.errors
        # from here to the end plain assignments, no calls: between those nothing can be interrupted
        guard.verb, errors.is_held = verb, True
        try:
            result = method(self, *args, **kwargs)
        except BaseException as error:
            if guard.is_changing:
                guard.broken_by = verb, error
            raise
        finally:
            guard.verb, errors.is_held, guard.is_changing = None, False, False
        if errors.noted:
            guard.settle(verb)
        return result

    return call
