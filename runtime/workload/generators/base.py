"""What a workload generator is."""

from typing import Protocol

from runtime.workload.model import Workload


class Generator(Protocol):
    """A frozen configuration that can make a workload from a seed."""

    def generate(self, seed: int) -> Workload:
        """The workload of that seed, which is >= 0: same configuration and seed, same workload."""
        ...
