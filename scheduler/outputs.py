"""Whether what an executor brought fits the plan it ran. Changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Final

from radixcache import RadixCacheError, Tokens
from scheduler.errors import PlanError
from scheduler.plan import Outputs, Row, StepPlan
from scheduler.request import RequestState

_NOTHING: Final = Tokens([])


def checked_outputs(plan: StepPlan, outputs: Outputs) -> list[tuple[Row, Tokens]]:
    """The rows whose requests still run, each with the tokens it generated.

    Args:
        plan: The plan that was run.
        outputs: Generated tokens by request id.

    Raises:
        PlanError: A number of tokens that the plan does not allow, a value that is no token id, or a request
            that has no row.

    Complexity:
        O(rows + generated tokens).
    """
    if not isinstance(outputs, Mapping):
        raise PlanError(f"outputs are a mapping of request ids to token ids, got {type(outputs).__name__}")
    strangers = outputs.keys() - {row.request.request_id for row in plan.rows}
    if strangers:
        stranger = min(strangers, key=str)
        raise PlanError(f"plan {plan.number} has no row for request {stranger!r}, but it got tokens")
    return [
        (row, _tokens_of(row, plan, outputs.get(row.request.request_id, ())))
        for row in plan.rows
        if row.request.state is RequestState.RUNNING
    ]


def _tokens_of(row: Row, plan: StepPlan, output: Sequence[int] | Tokens) -> Tokens:
    try:
        count, most = len(output), row.max_tokens
    except TypeError as error:
        raise PlanError(f"{_name(row, plan)} generates a sequence of token ids, got {output!r}") from error
    if not count and not most:
        return _NOTHING
    if not 0 < count <= most:
        raise PlanError(f"{_name(row, plan)} generates {min(1, most)} to {most} tokens, got {count}")
    try:
        return output if isinstance(output, Tokens) else Tokens(output)
    except RadixCacheError as error:
        raise PlanError(f"{_name(row, plan)}: {error}") from error


def _name(row: Row, plan: StepPlan) -> str:
    return f"request {row.request.request_id!r} in plan {plan.number}"
