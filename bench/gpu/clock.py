"""Time on a device, and how much of it is left."""

from collections.abc import Callable, Mapping
from time import perf_counter

import torch

WALL = "wall"


class Budget:
    """Seconds that a run may take; what does not fit any more is named, not done.

    Args:
        seconds: From now.

    Attributes:
        skipped: Names of what was not done.
    """

    def __init__(self, seconds: float) -> None:
        self._end = perf_counter() + seconds
        self.skipped: list[str] = []

    def allows(self, name: str) -> bool:
        """Whether there is time left to begin something; notes it where there is not."""
        if perf_counter() < self._end:
            return True
        self.skipped.append(name)
        return False


def synchronize(device: torch.device) -> None:
    """Wait until everything on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(
    calls: Mapping[str, Callable[[], object]],
    device: torch.device,
    *,
    num_samples: int,
    calls_per_sample: int,
) -> dict[str, list[float]]:
    """Milliseconds a call, by name: samples in turn, the device idle before and after each.

    Args:
        calls: What to time.
        device: Where it runs.
        num_samples: Samples of each; one more goes before and is dropped.
        calls_per_sample: Calls in a sample, which is the mean of these.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(num_samples + 1):
        for name, call in calls.items():
            synchronize(device)
            start = perf_counter()
            for _ in range(calls_per_sample):
                call()
            synchronize(device)
            taken[name].append(round((perf_counter() - start) * 1000 / calls_per_sample, 6))
    return {name: samples[1:] for name, samples in taken.items()}
