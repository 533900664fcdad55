"""What the simulator asks of a cost model."""

from typing import Protocol

from runtime.cost.load import StepLoad


class StepCost(Protocol):
    """Time of steps in integer picoseconds, so that sums do not depend on their order."""

    def step_ps(self, load: StepLoad) -> int:
        """Time of one step. A step that computes no token takes none."""
        ...

    def decode_run_ps(self, load: StepLoad, num_steps: int) -> int:
        """Exactly the sum of `step_ps` over decode steps in a row, each row's context growing by one a step.

        Args:
            load: The first step. Every row computes one token and needs logits.
            num_steps: Steps, >= 0.
        """
        ...

    def describe(self) -> dict[str, object]:
        """Everything the times rest on, as JSON values, for reports."""
        ...
