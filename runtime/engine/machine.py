"""A model on a device, as a measurement needs it."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import torch

from radixcache import CacheConfig
from runtime.clock import Clock, WallClock
from runtime.engine.assembly import make_executor
from runtime.engine.executor import TorchExecutor
from runtime.engine.sampling import Sampler
from runtime.models import Decoder

_PACKAGES: Final = ("torch", "flashinfer-python")


class TorchMachine:
    """A decoder on any device of torch; a `runtime.simulation.Machine`.

    Args:
        model: The decoder.
        name: Its name, for reports.
        backend: Attention kernels, a name in `runtime.attention.BACKENDS`.
        clock: Measures steps; `None`: the wall clock.
    """

    def __init__(
        self, model: Decoder, name: str, *, backend: str = "torch", clock: Clock | None = None
    ) -> None:
        self._model = model
        self._name = name
        self._backend = backend
        self._clock = clock or WallClock()

    @property
    def vocab(self) -> int:
        """Token ids that the model knows: [0, vocab)."""
        return self._model.config.vocab

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together that the model takes at most."""
        return self._model.config.max_context

    def executor(self, config: CacheConfig) -> TorchExecutor:
        """A new executor with KV for the pages of a cache; always takes the likeliest token.

        Raises:
            UnknownName, BackendUnavailable: See `make_executor`.
        """
        return make_executor(self._model, config, Sampler(), self._clock, backend=self._backend)

    def describe(self) -> dict[str, Any]:
        """Model and device, as JSON values."""
        shape, device = self._model.config, self._model.device
        return {
            "model": {
                "name": self._name,
                "layers": shape.layers,
                "hidden": shape.hidden,
                "intermediate": shape.intermediate,
                "heads": shape.heads,
                "kv_heads": shape.kv_heads,
                "head_dim": shape.head_dim,
                "vocab": shape.vocab,
                "max_context": shape.max_context,
            },
            "device": str(device),
            "device_name": _name_of(device),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "attention": self._backend,
            "threads": torch.get_num_threads(),
            "system": platform.platform(),
        }

    def versions(self) -> dict[str, str]:
        """Version of each package that has a say in the times."""
        found = {}
        for name in _PACKAGES:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
        return found


def _name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _processor() if device.type == "cpu" else device.type


def _processor() -> str:
    """Name of the CPU; the kernel's own where it tells, as Python knows only the architecture there."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
