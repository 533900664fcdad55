"""What the scheduler raises, beside the cache's own errors."""

from radixcache import RadixCacheError


class InvalidRequest(RadixCacheError, ValueError):
    """A request is malformed; names the value and the limit."""


class RequestTooLong(RadixCacheError, ValueError):
    """A request can never fit into the pool, however empty.

    Attributes:
        request_id: Which request.
        num_tokens: Tokens it would have KV for at its end.
        max_tokens: The largest that can be served.
    """

    def __init__(self, request_id: str, num_tokens: int, max_tokens: int) -> None:
        super().__init__(
            f"request {request_id!r} needs KV for {num_tokens} tokens, the pool holds at most {max_tokens}"
        )
        self.request_id = request_id
        self.num_tokens = num_tokens
        self.max_tokens = max_tokens


class QueueFull(RadixCacheError, RuntimeError):
    """As many requests wait as may; nothing is wrong with this one.

    Attributes:
        request_id: Which request.
        max_waiting: How many may wait.
    """

    def __init__(self, request_id: str, max_waiting: int) -> None:
        super().__init__(f"request {request_id!r} is refused: {max_waiting} requests wait, the most that may")
        self.request_id = request_id
        self.max_waiting = max_waiting


class DeadlineMissed(RadixCacheError, TimeoutError):
    """A request still waited when its deadline passed, and was ended."""


class PoolOutgrown(RadixCacheError, MemoryError):
    """A request without an output limit outgrew the whole pool; it ended, the others go on."""


class PlanError(RadixCacheError, RuntimeError):
    """Plans and commits do not alternate, or the outputs do not fit the plan. Nothing changed."""


class RequestStateError(RadixCacheError, RuntimeError):
    """A request was to go where its state does not lead."""


class Stalled(RadixCacheError, RuntimeError):
    """Requests wait and nothing can run, plan after plan."""


class ReentrantCall(RadixCacheError, RuntimeError):
    """Somebody whom a call told or asked, as an observer, called the scheduler. That changed nothing."""


class Interrupted(RadixCacheError, RuntimeError):
    """An earlier call broke off halfway: make scheduler and cache anew. `__cause__` is what broke it off.

    Attributes:
        verb: Which call.
    """

    def __init__(self, verb: str, cause: BaseException) -> None:
        super().__init__(
            f"{verb} was interrupted by {cause!r} and is half done: make scheduler and cache anew"
        )
        self.verb = verb
        self.__cause__ = cause


class WrongThread(RadixCacheError, RuntimeError):
    """The scheduler is used from a second thread."""
