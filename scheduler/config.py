"""Settings of a scheduler."""

from dataclasses import dataclass, field

from radixcache.errors import InvalidConfig, UnknownName
from scheduler.policies import QUEUE_POLICIES, MakePolicy, PolicyOptions

_LEAST_OVERTAKES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Settings of a `Scheduler`.

    Attributes:
        policy: Order of the waiting queue: a name in `QUEUE_POLICIES`, or a function that makes one.
        policy_options: What some of the orders can be told.
        token_budget: Tokens computed in one step at most, >= 1.
        prefill_chunk_tokens: Tokens of one prompt computed in one step at most; `None`: the budget.
        max_running: Requests that run at once at most, >= 1.
        max_waiting: Requests that wait at most, >= 1; more are refused. `None`: no limit.
        max_overtakes: How often a request may be overtaken, >= 1, under every order but `lpm` and `dfs`;
            `None`: 512, or as many as wait when it arrives if those are more.
        share_in_flight: Whether requests wait for a page that a running request is computing.
        priority_step: Time after which a waiting request counts one priority level more, in the unit of
            `now`; `None`: priorities do not order the queue.
        max_empty_plans: Plans in a row that may be empty while requests wait, >= 1; then `Stalled`.

    Raises:
        InvalidConfig: A value lies outside its range; names it and the limit.
    """

    policy: str | MakePolicy = "fcfs"
    policy_options: PolicyOptions = field(default_factory=PolicyOptions)
    token_budget: int = 8192
    prefill_chunk_tokens: int | None = None
    max_running: int = 256
    max_waiting: int | None = None
    max_overtakes: int | None = None
    share_in_flight: bool = True
    priority_step: float | None = None
    max_empty_plans: int = 8

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_running", "max_empty_plans"):
            self._require_count(name)
        for name in ("prefill_chunk_tokens", "max_waiting", "max_overtakes"):
            if getattr(self, name) is not None:
                self._require_count(name)
        if self.priority_step is not None and not 0 < self.priority_step < float("inf"):
            raise InvalidConfig(f"priority_step is a finite number > 0, got {self.priority_step}")
        if isinstance(self.policy, str) and self.policy not in QUEUE_POLICIES:
            raise UnknownName("queue policy", self.policy, QUEUE_POLICIES)
        if not isinstance(self.policy, str) and not callable(self.policy):
            raise InvalidConfig(f"policy is a name or a function, got {self.policy!r}")

    def _require_count(self, name: str) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidConfig(f"{name} is an integer >= 1, got {value!r}")

    @property
    def chunk_tokens(self) -> int:
        """Tokens of one prompt computed in one step at most."""
        return min(self.token_budget, self.prefill_chunk_tokens or self.token_budget)

    def overtakes_allowed(self, num_waiting: int) -> int:
        """How often a request may be overtaken that finds so many waiting."""
        return max(_LEAST_OVERTAKES, num_waiting) if self.max_overtakes is None else self.max_overtakes
