"""Whether what an executor brought fits the plan it ran. Changes nothing."""

from collections.abc import Sequence

from radixcache import RadixCacheError, Tokens
from scheduler.errors import PlanError
from scheduler.plan import Outputs, Row, StepPlan
from scheduler.request import RequestState


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
    strangers = outputs.keys() - {row.request.request_id for row in plan.rows}
    if strangers:
        raise PlanError(f"plan {plan.number} has no row for request {min(strangers)!r}, but it got tokens")
    return [
        (row, _tokens_of(row, plan, outputs.get(row.request.request_id, ())))
        for row in plan.rows
        if row.request.state is RequestState.RUNNING
    ]


def _tokens_of(row: Row, plan: StepPlan, output: Sequence[int]) -> Tokens:
    name = f"request {row.request.request_id!r} in plan {plan.number}"
    fewest, most = min(1, row.max_tokens), row.max_tokens
    if not fewest <= len(output) <= most:
        raise PlanError(f"{name} generates {fewest} to {most} tokens, got {len(output)}")
    try:
        return Tokens(output)
    except RadixCacheError as error:
        raise PlanError(f"{name}: {error}") from error
