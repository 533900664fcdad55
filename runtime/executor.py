"""What runs a plan: the protocol, and the executor that only reckons how long it would take."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from radixcache import Tokens
from radixcache.tokens import TOKEN_BYTES
from runtime.cost import CostModel, StepLoad
from runtime.errors import WorkloadError
from runtime.workload import FRESH_TOKEN_BASE
from scheduler import Row, StepPlan

_TOKEN_END = 2**31


class StepOutput(NamedTuple):
    """What a step brought.

    Attributes:
        tokens: Generated tokens by request id, for each row that generates.
        elapsed_ps: How long it took. Unit: picoseconds.
    """

    tokens: Mapping[str, Sequence[int] | Tokens]
    elapsed_ps: int


class Executor(Protocol):
    """Runs plans one after another."""

    def execute(self, plan: StepPlan) -> StepOutput:
        """Run the copies of a plan, then its rows.

        An executor that raises has computed nothing that counts; the plan is then discarded.
        """
        ...


class CostModelExecutor:
    """Simulates a step: reckons its time and makes up its output.

    Generated tokens are counted up from `FRESH_TOKEN_BASE`: they occupy the cache, and are found again only
    by prompts that contain them.

    Args:
        cost_model: What a step costs.
    """

    def __init__(self, cost_model: CostModel) -> None:
        self._cost = cost_model
        self._next_token = FRESH_TOKEN_BASE

    def execute(self, plan: StepPlan) -> StepOutput:
        """See `Executor`. Coalesced decode steps take exactly as long as single ones. O(rows)."""
        load = _load(plan.rows)
        num_steps = max((row.max_tokens for row in plan.rows), default=0)
        cost = self._cost
        elapsed_ps = cost.decode_run_ps(load, num_steps) if num_steps > 1 else cost.step_ps(load)
        return StepOutput(self._fresh(plan.rows, num_steps), elapsed_ps)

    def steps_until(self, rows: Sequence[Row], time_left_ps: int) -> int:
        """Decode steps of `rows` until `time_left_ps` have passed, at least 1. O(rows + log steps)."""
        load = _load(rows)
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

    def _fresh(self, rows: Sequence[Row], num_steps: int) -> dict[str, Tokens]:
        """New tokens, dealt out row by row for each step in turn: as if the steps were single ones."""
        generating = [row for row in rows if row.max_tokens]
        width, first = len(generating), self._next_token
        self._next_token += width * num_steps
        if self._next_token > _TOKEN_END:
            raise WorkloadError(f"more than {_TOKEN_END - FRESH_TOKEN_BASE} tokens were generated")
        dealt = np.arange(first, self._next_token, dtype="<i4").reshape(num_steps, width).T.tobytes()
        size = num_steps * TOKEN_BYTES
        return {
            row.request.request_id: Tokens.trusted(dealt[place * size : (place + 1) * size])
            for place, row in enumerate(generating)
        }


def _load(rows: Sequence[Row]) -> StepLoad:
    return StepLoad.of((row.start, row.extend_len, row.max_tokens > 0) for row in rows)
