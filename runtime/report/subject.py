"""What a result is about, in a few words: workload, device and model."""

from collections.abc import Mapping
from typing import Any


def subject(config: Mapping[str, Any]) -> str:
    """Workload, device and model, as far as a configuration names them.

    >>> cost = {"gpu": "H100-SXM", "model": "Llama-3.1-8B", "tp": 2}
    >>> subject({"workload": {"name": "chat"}, "cost_model": cost})
    'chat on 2 x H100-SXM with Llama-3.1-8B'
    """
    workload = _name(config.get("workload"), "name") or "a workload"
    machine, cost = config.get("machine"), config.get("cost_model")
    if isinstance(machine, Mapping):
        device, model = _name(machine, "device_name"), _name(machine.get("model"), "name")
    else:
        device, model = _gpus(cost), _name(cost, "model")
    return workload + (f" on {device}" if device else "") + (f" with {model}" if model else "")


def _gpus(cost: object) -> str | None:
    gpu = _name(cost, "gpu")
    num = cost.get("tp") if isinstance(cost, Mapping) else None
    return f"{num} x {gpu}" if gpu and isinstance(num, int) and num > 1 else gpu


def _name(value: object, key: str) -> str | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None
