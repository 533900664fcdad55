"""Running a step so that one bad row does not take the others with it."""

from collections.abc import Sequence
from dataclasses import replace

from radixcache import PageCopy, Tokens
from runtime.executor import Executor, StepOutput
from scheduler import Row, StepPlan


def execute_isolated(executor: Executor, plan: StepPlan) -> tuple[StepOutput, dict[str, Exception]]:
    """Run a plan; where it raises, run its rows one by one.

    Running a row twice is harmless: it writes the same KV to the same slots, and copies come from pages that
    stay as they are until the step is committed.

    Args:
        executor: Whatever runs plans.
        plan: What to run.

    Returns:
        What the rows that ran brought, and by request id why the others did not. Where rows were run one by
        one, the time is the sum of theirs.
    """
    try:
        return executor.execute(plan), {}
    except Exception as error:  # noqa: BLE001  # whatever a kernel raises
        if len(plan.rows) == 1:
            return StepOutput({}, 0), {plan.rows[0].request.request_id: error}
    tokens: dict[str, Sequence[int] | Tokens] = {}
    errors: dict[str, Exception] = {}
    elapsed_ps = 0
    for row in plan.rows:
        if row.request.sequence is None:
            continue
        try:
            output = executor.execute(replace(plan, rows=(row,), copies=_copies_of(row, plan)))
        except Exception as error:  # noqa: BLE001
            errors[row.request.request_id] = error
        else:
            tokens.update(output.tokens)
            elapsed_ps += output.elapsed_ps
    return StepOutput(tokens, elapsed_ps), errors


def _copies_of(row: Row, plan: StepPlan) -> tuple[PageCopy, ...]:
    assert row.request.sequence is not None
    pages = set(row.request.sequence.page_table.tolist())
    return tuple(copy for copy in plan.copies if copy.target in pages)
