"""A request as the scheduler sees it, and the states it goes through."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from radixcache import Namespace, Sequence, Tokens
from radixcache.arguments import as_integer, as_seconds
from radixcache.namespace import namespace_key
from radixcache.tokens import TokenSource
from scheduler.errors import InvalidRequest, RequestStateError

_MAX_PRIORITY: Final = 2**31 - 1


class RequestState(StrEnum):
    """Where a request is in its life."""

    NEW = "new"
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"
    ABORTED = "aborted"
    FAILED = "failed"
    EXPIRED = "expired"


TRANSITIONS: Final[dict[RequestState, frozenset[RequestState]]] = {
    RequestState.NEW: frozenset({RequestState.WAITING}),
    RequestState.WAITING: frozenset({RequestState.RUNNING, RequestState.ABORTED, RequestState.EXPIRED}),
    RequestState.RUNNING: frozenset(
        {RequestState.PREEMPTED, RequestState.FINISHED, RequestState.ABORTED, RequestState.FAILED}
    ),
    RequestState.PREEMPTED: frozenset({RequestState.RUNNING, RequestState.ABORTED, RequestState.FAILED}),
    RequestState.FINISHED: frozenset(),
    RequestState.ABORTED: frozenset(),
    RequestState.FAILED: frozenset(),
    RequestState.EXPIRED: frozenset(),
}
"""Where each state may lead."""


class PreemptReason(StrEnum):
    """Why a running request was thrown back to waiting."""

    OUT_OF_PAGES = "out_of_pages"
    PRIORITY = "priority"
    STEP_FAILED = "step_failed"


@dataclass(slots=True, eq=False)
class Request:
    """A unit of user work: a prompt and a limit of output tokens.

    Args:
        request_id: Unique among those in the scheduler.
        prompt: Token ids, at least one; see `radixcache.Tokens`.
        max_new_tokens: Tokens to generate at most, >= 1; `None`: until the executor ends it.
        namespace: See `radixcache.Namespace`.
        read: `False`: use no cached prefix.
        write: `False`: leave nothing in the cache.
        priority: Hint for eviction, >= 0; with `SchedulerConfig.priority_step` also for the queue.
        retain: Seconds for which the hint holds.
        client: Who it belongs to, for `fair`.
        deadline: Time after which it is not worth starting; one that still waits then is ended.

    The scheduler keeps the rest; times are whatever `now` it is given.

    Attributes:
        state: Where the request is in its life.
        number: Order of submission, from 0; -1 before.
        sequence: What it holds in the cache while it runs.
        output: Token ids generated so far.
        submitted_at: Time of submission.
        first_scheduled_at: Time of the plan that first contained it.
        first_token_at: Time of the commit that brought its first token.
        finished_at: Time of the commit or call that ended it.
        matched_len: Prompt tokens found in the cache at first admission.
        copied_len: Prompt tokens copied from part of a page at first admission.
        missed_tokens: Prompt tokens not found at first admission, by reason.
        prefill_tokens: Prompt tokens computed for the first time.
        recomputed_tokens: Tokens computed a second time after preemptions.
        num_preemptions: How often it was thrown back.
        error: Why it failed.

    Raises:
        InvalidRequest: No prompt, or a number below its limit.
        InvalidArgument, InvalidArgumentType: A number or the namespace is of a wrong type, or not finite.
    """

    request_id: str
    prompt: Tokens
    max_new_tokens: int | None
    namespace: Namespace = None
    read: bool = True
    write: bool = True
    priority: int = 0
    retain: float | None = None
    client: str | None = None
    deadline: float | None = None

    state: RequestState = field(default=RequestState.NEW, init=False)
    number: int = field(default=-1, init=False)
    sequence: Sequence | None = field(default=None, init=False)
    output: list[int] = field(default_factory=list, init=False)
    submitted_at: float | None = field(default=None, init=False)
    first_scheduled_at: float | None = field(default=None, init=False)
    first_token_at: float | None = field(default=None, init=False)
    finished_at: float | None = field(default=None, init=False)
    matched_len: int = field(default=0, init=False)
    copied_len: int = field(default=0, init=False)
    missed_tokens: dict[str, int] = field(default_factory=dict, init=False)
    prefill_tokens: int = field(default=0, init=False)
    recomputed_tokens: int = field(default=0, init=False)
    num_preemptions: int = field(default=0, init=False)
    error: Exception | None = field(default=None, init=False)

    prompt_len: int = field(default=0, init=False, repr=False)
    """Tokens of the prompt."""
    own_from: int = field(default=0, init=False, repr=False)
    """Tokens matched at the latest admission: what lies behind them is this request's own."""
    ever_computed: int = field(default=0, init=False, repr=False)
    """Leading tokens that had KV at some time."""
    ended_before: int = field(default=0, init=False, repr=False)
    """Running requests that had ended when it was preempted last."""

    def __post_init__(self) -> None:
        if not isinstance(self.prompt, Tokens):
            self.prompt = Tokens(self.prompt)
        if not isinstance(self.client, str | None):
            raise InvalidRequest(
                f"request {self.request_id!r}: client is a string or None, got {self.client!r}"
            )
        self.prompt_len = len(self.prompt)
        if not self.prompt_len:
            raise InvalidRequest(f"request {self.request_id!r}: a prompt has at least one token, got none")
        self.priority = as_integer("priority", self.priority)
        self._require_at_least("priority", self.priority, 0)
        if self.priority > _MAX_PRIORITY:
            raise InvalidRequest(
                f"request {self.request_id!r}: priority is at most {_MAX_PRIORITY}, got {self.priority}"
            )
        if self.max_new_tokens is not None:
            self.max_new_tokens = as_integer("max_new_tokens", self.max_new_tokens)
            self._require_at_least("max_new_tokens", self.max_new_tokens, 1)
        if self.retain is not None:
            self._require_at_least("retain", as_seconds("retain", self.retain), 0)
        if self.deadline is not None:
            self.deadline = as_seconds("deadline", self.deadline)
        namespace_key(self.namespace)

    def _require_at_least(self, name: str, value: float, lowest: int) -> None:
        if value < lowest:
            raise InvalidRequest(f"request {self.request_id!r}: {name} is at least {lowest}, got {value}")

    @classmethod
    def of(
        cls,
        request_id: str,
        prompt: TokenSource,
        max_new_tokens: int | None,
        *,
        namespace: Namespace = None,
        read: bool = True,
        write: bool = True,
        priority: int = 0,
        retain: float | None = None,
        client: str | None = None,
        deadline: float | None = None,
    ) -> "Request":
        """Make a request from any token source.

        Raises:
            InvalidTokens, InvalidTokenType: See `radixcache.Tokens`; for the rest see the class.
        """
        tokens = Tokens(prompt)
        return cls(
            request_id, tokens, max_new_tokens, namespace, read, write, priority, retain, client, deadline
        )

    @property
    def num_known(self) -> int:
        """Prompt and output tokens."""
        return self.prompt_len + len(self.output)

    @property
    def remaining(self) -> int | None:
        """Tokens still to generate at most; `None`: no limit."""
        return None if self.max_new_tokens is None else self.max_new_tokens - len(self.output)

    def known_tokens(self) -> Tokens:
        """Prompt and output as one buffer."""
        return Tokens.trusted(self.prompt.data + Tokens(self.output).data) if self.output else self.prompt

    def note_first_admission(self, sequence: Sequence, now: float) -> None:
        """It runs for the first time, with a sequence whose pages are reserved."""
        self.first_scheduled_at = now
        self.matched_len = sequence.matched_len
        self.copied_len = sequence.computed_len - sequence.matched_len
        if sequence.miss is not None:
            missed = sequence.miss.tokens_by_reason()
            missed[sequence.miss.reason or sequence.miss.tail_reason] -= self.copied_len
            self.missed_tokens = {reason.value: count for reason, count in missed.items()}

    def note_computed(self, start: int, stop: int) -> None:
        """The tokens at positions [start, stop) were computed: for the first time, or again."""
        if start >= self.prompt_len and start >= self.ever_computed:
            self.ever_computed = stop
            return
        self.recomputed_tokens += max(0, min(stop, self.ever_computed) - start)
        self.prefill_tokens += max(0, min(stop, self.prompt_len) - max(start, self.ever_computed))
        self.ever_computed = max(self.ever_computed, stop)

    def enter(self, state: RequestState) -> None:
        """Go to another state.

        Raises:
            RequestStateError: The present state does not lead there.
        """
        if state not in TRANSITIONS[self.state]:
            raise RequestStateError(f"request {self.request_id!r} is {self.state}, it cannot become {state}")
        self.state = state
