"""Orders of the waiting queue, one small class each, in one dictionary."""

from typing import Final

from scheduler.policies.base import MakePolicy, PolicyOptions, QueuePolicy
from scheduler.policies.dfs import DFS
from scheduler.policies.fair import Fair
from scheduler.policies.fcfs import FCFS
from scheduler.policies.hrrn import HRRN
from scheduler.policies.k_lpm import KLPM
from scheduler.policies.lpm import LPM
from scheduler.policies.rematch import RematchLPM

QUEUE_POLICIES: Final[dict[str, MakePolicy]] = {
    "fcfs": FCFS,
    "lpm": LPM,
    "dfs": DFS,
    "k-lpm": KLPM,
    "hrrn": HRRN,
    "fair": Fair,
}

UNBOUNDED: Final = frozenset(
    name for name, order in QUEUE_POLICIES.items() if not getattr(order, "is_bounded", True)
)
"""Orders under which a request may wait without end."""

__all__ = ["QUEUE_POLICIES", "UNBOUNDED", "MakePolicy", "PolicyOptions", "QueuePolicy", "RematchLPM"]
