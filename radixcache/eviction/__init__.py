"""Eviction policies: one small class each, in one dictionary."""

from collections.abc import Callable
from typing import Final, TypeAlias

from radixcache.eviction.base import EvictionPolicy, Use
from radixcache.eviction.fifo import FIFO
from radixcache.eviction.gdsf import GDSF
from radixcache.eviction.hazard import Hazard
from radixcache.eviction.lfu import LFU
from radixcache.eviction.lru import LRU
from radixcache.eviction.priority import Priority
from radixcache.eviction.slru import SLRU
from radixcache.eviction.tlru import TLRU
from radixcache.eviction.workload_aware import WorkloadAware

PolicyFactory: TypeAlias = Callable[[int], EvictionPolicy]
"""Makes a policy for a pool of so many pages."""

EVICTION_POLICIES: Final[dict[str, PolicyFactory]] = {
    "lru": LRU,
    "fifo": FIFO,
    "lfu": LFU,
    "slru": SLRU,
    "priority": Priority,
    "gdsf": GDSF,
    "tlru": TLRU,
    "wa": WorkloadAware,
    "hazard": Hazard,
}

__all__ = [
    "EVICTION_POLICIES",
    "FIFO",
    "GDSF",
    "LFU",
    "LRU",
    "SLRU",
    "TLRU",
    "EvictionPolicy",
    "Hazard",
    "PolicyFactory",
    "Priority",
    "Use",
    "WorkloadAware",
]
