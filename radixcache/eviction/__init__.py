"""Eviction policies: one small class each, in one dictionary."""

from collections.abc import Callable
from typing import Final, TypeAlias

from radixcache.eviction.base import EvictionPolicy, Use
from radixcache.eviction.fifo import FIFO
from radixcache.eviction.lfu import LFU
from radixcache.eviction.lru import LRU
from radixcache.eviction.priority import Priority
from radixcache.eviction.slru import SLRU

PolicyFactory: TypeAlias = Callable[[int], EvictionPolicy]
"""Makes a policy for a pool of so many pages."""

EVICTION_POLICIES: Final[dict[str, PolicyFactory]] = {
    "lru": LRU,
    "fifo": FIFO,
    "lfu": LFU,
    "slru": SLRU,
    "priority": Priority,
}

__all__ = [
    "EVICTION_POLICIES",
    "FIFO",
    "LFU",
    "LRU",
    "SLRU",
    "EvictionPolicy",
    "PolicyFactory",
    "Priority",
    "Use",
]
