"""Running a step so that one bad row does not take the others with it."""

from collections.abc import Sequence
from dataclasses import replace

from radixcache import PageCopy, Tokens
from runtime.executor import Executor
from scheduler import PlanError, Request, Row, StepPlan
from scheduler.outputs import checked_outputs
from scheduler.plan import Outputs


def execute_isolated(executor: Executor, plan: StepPlan) -> tuple[Outputs, dict[Request, Exception]]:
    """Run a plan; where it raises, or brings what the plan does not allow, run its rows one by one.

    Rows that the executor itself says failed do so alone, and nothing is run again for them.

    Running a row twice is harmless: it writes the same KV to the same slots, and copies come from pages that
    stay as they are until the step is committed.

    Args:
        executor: Whatever runs plans.
        plan: What to run.

    Returns:
        What the rows that ran brought, fit for `Scheduler.commit`, and why the others did not.
    """
    try:
        return _execute(executor, plan)
    except Exception as error:  # noqa: BLE001  # whatever a kernel raises
        if len(plan.rows) == 1:
            return {}, {plan.rows[0].request: error}
    outputs: dict[str, Sequence[int] | Tokens] = {}
    errors: dict[Request, Exception] = {}
    for row in plan.rows:
        if row.request.sequence is None:
            continue
        try:
            alone, failed = _execute(executor, replace(plan, rows=(row,), copies=_copies_of(row, plan)))
        except Exception as error:  # noqa: BLE001
            errors[row.request] = error
        else:
            outputs.update(alone)
            errors.update(failed)
    return outputs, errors


def _execute(executor: Executor, plan: StepPlan) -> tuple[Outputs, dict[Request, Exception]]:
    """Tokens that the plan allows, and why the executor says that rows failed.

    Raises:
        PlanError: Tokens that the plan does not allow, or that a row failed which the plan does not have.
    """
    output = executor.execute(plan)
    if not output.errors:
        checked_outputs(plan, output.tokens)
        return output.tokens, {}
    names = {row.request.request_id: row.request for row in plan.rows}
    strangers = output.errors.keys() - names.keys()
    if strangers:
        raise PlanError(f"plan {plan.number} has no row for request {min(strangers)!r}, but it failed")
    others = tuple(row for row in plan.rows if row.request.request_id not in output.errors)
    checked_outputs(replace(plan, rows=others), output.tokens)
    return output.tokens, {names[name]: error for name, error in output.errors.items()}


def _copies_of(row: Row, plan: StepPlan) -> tuple[PageCopy, ...]:
    assert row.request.sequence is not None
    pages = set(row.request.sequence.page_table.tolist())
    return tuple(copy for copy in plan.copies if copy.target in pages)
