"""What runs a plan: the protocol, and the executor that only reckons how long it would take."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np

from radixcache import Tokens
from runtime.cost import StepCost, StepLoad
from runtime.errors import WorkloadError
from runtime.workload import FRESH_TOKEN_BASE
from scheduler import Request, StepPlan
from scheduler.plan import Decodes

_TOKEN_END = 2**31
_NO_ERRORS: Final[Mapping[str, Exception]] = MappingProxyType({})


class StepOutput(NamedTuple):
    """What a step brought.

    Attributes:
        tokens: Generated tokens by request id, for each row that generates.
        elapsed_ps: How long it took. Unit: picoseconds.
        errors: Why a row brought nothing that counts, by request id; the other rows are as they should be.
    """

    tokens: Mapping[str, Sequence[int] | Tokens]
    elapsed_ps: int
    errors: Mapping[str, Exception] = _NO_ERRORS


class Executor(Protocol):
    """Runs plans one after another."""

    def execute(self, plan: StepPlan) -> StepOutput:
        """Run the copies of a plan, then its rows.

        An executor that raises has computed nothing that counts; the plan is then discarded. Where it knows
        which rows failed, it names them in `errors` instead, and the other rows count.
        """
        ...


class CostModelExecutor:
    """Simulates a step: reckons its time and makes up its output.

    Each request gets generated tokens of its own, counted up from `FRESH_TOKEN_BASE`: they occupy the cache,
    and are found again only by prompts that contain them.

    Args:
        cost_model: What a step costs.
    """

    def __init__(self, cost_model: StepCost) -> None:
        self._cost = cost_model
        self._next_token = FRESH_TOKEN_BASE
        self._first_tokens: dict[str, int] = {}

    def execute(self, plan: StepPlan) -> StepOutput:
        """See `Executor`. Coalesced decode steps take exactly as long as single ones. O(rows)."""
        load, num_steps, cost = load_of(plan), plan.num_steps, self._cost
        elapsed_ps = cost.decode_run_ps(load, num_steps) if num_steps > 1 else cost.step_ps(load)
        tokens = {}
        for row in plan.rows:
            if row.max_tokens:
                start = len(row.request.output)
                tokens[row.request.request_id] = self.tokens(row.request, start, start + row.max_tokens)
        return StepOutput(tokens, elapsed_ps)

    def steps_until(self, decodes: Decodes, time_left_ps: int) -> int:
        """Decode steps until `time_left_ps` have passed, at least 1. O(log steps)."""
        load = StepLoad.of_decodes(decodes.num_rows, decodes.context)
        high = 1
        while self._cost.decode_run_ps(load, high) < time_left_ps:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            if self._cost.decode_run_ps(load, middle) < time_left_ps:
                low = middle
            else:
                high = middle
        return high

    def tokens(self, request: Request, start: int, stop: int) -> Tokens:
        """What a request generates at output positions [start, stop), an `OutputSource`.

        Raises:
            WorkloadError: All outputs together are longer than there are token ids.
        """
        first = self._first_tokens.get(request.request_id)
        if first is None:
            if request.max_new_tokens is None:
                raise WorkloadError(f"request {request.request_id!r} has no output length to make up")
            first, self._next_token = self._next_token, self._next_token + request.max_new_tokens
            if self._next_token > _TOKEN_END:
                raise WorkloadError(f"more than {_TOKEN_END - FRESH_TOKEN_BASE} tokens were generated")
            self._first_tokens[request.request_id] = first
        if stop == request.max_new_tokens:
            del self._first_tokens[request.request_id]
        return Tokens.trusted(np.arange(first + start, first + stop, dtype="<i4").tobytes())


def load_of(plan: StepPlan) -> StepLoad:
    """What a plan has to do, in counts; of coalesced steps the first. O(rows)."""
    decodes = StepLoad.of_decodes(plan.decodes.num_rows, plan.decodes.context)
    return decodes + StepLoad.of((row.start, row.extend_len, row.max_tokens > 0) for row in plan.rows)
