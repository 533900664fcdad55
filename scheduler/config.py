"""Settings of a scheduler."""

from dataclasses import dataclass
from difflib import get_close_matches

from radixcache.errors import InvalidConfig
from scheduler.queue_policy import QUEUE_POLICIES


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Settings of a `Scheduler`.

    Attributes:
        policy: Order of the waiting queue, a name in `QUEUE_POLICIES`.
        token_budget: Tokens computed in one step at most, >= 1.
        prefill_chunk_tokens: Tokens of one prompt computed in one step at most; `None`: the budget.
        max_running: Requests that run at once at most, >= 1.
        max_empty_plans: Plans in a row that may be empty while requests wait, >= 1; then `Stalled`.

    Raises:
        InvalidConfig: A value lies outside its range; names it and the limit.
    """

    policy: str = "fcfs"
    token_budget: int = 8192
    prefill_chunk_tokens: int | None = None
    max_running: int = 256
    max_empty_plans: int = 8

    def __post_init__(self) -> None:
        for name in ("token_budget", "prefill_chunk_tokens", "max_running", "max_empty_plans"):
            value = getattr(self, name)
            if value is None and name == "prefill_chunk_tokens":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidConfig(f"{name} is an integer >= 1, got {value!r}")
        if self.policy not in QUEUE_POLICIES:
            near = get_close_matches(str(self.policy), QUEUE_POLICIES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidConfig(
                f"unknown queue policy {self.policy!r}, there are {sorted(QUEUE_POLICIES)}{hint}"
            )

    @property
    def chunk_tokens(self) -> int:
        """Tokens of one prompt computed in one step at most."""
        return min(self.token_budget, self.prefill_chunk_tokens or self.token_budget)
