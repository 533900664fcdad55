"""radixcache: a prefix KV-cache manager for LLM serving.

Maps token sequences to KV pages in a radix tree: finds the longest cached prefix, locks what is in use,
publishes what was computed and evicts what is worth least. Holds no KV, imports no torch, reads no clock.
"""

from radixcache.cache import Match, PrefixCache
from radixcache.config import CacheConfig
from radixcache.copies import PageCopy
from radixcache.errors import OutOfPages, RadixCacheError
from radixcache.events import CacheObserver
from radixcache.eviction import EVICTION_POLICIES, EvictionPolicy
from radixcache.invariants import check
from radixcache.misses import MissReason
from radixcache.namespace import Namespace
from radixcache.null import NullPrefixCache
from radixcache.sequence import Sequence
from radixcache.stats import CacheStats, PageCounts
from radixcache.tokens import Tokens

__all__ = [
    "EVICTION_POLICIES",
    "CacheConfig",
    "CacheObserver",
    "CacheStats",
    "EvictionPolicy",
    "Match",
    "MissReason",
    "Namespace",
    "NullPrefixCache",
    "OutOfPages",
    "PageCopy",
    "PageCounts",
    "PrefixCache",
    "RadixCacheError",
    "Sequence",
    "Tokens",
    "check",
]
