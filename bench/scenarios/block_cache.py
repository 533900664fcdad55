"""Requests through the verbs of the cache, where a token stands for a block."""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from bench.workloads.material import Ids
from radixcache import CacheConfig, Namespace, PrefixCache, check
from radixcache.namespace import namespace_key
from runtime.lab import PageTrace, TraceBuilder

OWN_TOKEN = np.array([2**31 - 1], dtype=np.int32)
"""Ends every prompt, as the last token of a prompt is never found."""

BlockRequest: TypeAlias = tuple[Namespace, Ids]
"""Where a request looks, and the ids of its blocks, from 0 to 2**31 - 2."""


def pages_of(requests: Iterable[BlockRequest]) -> PageTrace:
    """The requests as `runtime.lab` sees them; every block can be found."""
    builder = TraceBuilder(1)
    for namespace, blocks in requests:
        size = len(blocks)
        key = namespace_key(namespace)
        builder.add(key, blocks, prompt_tokens=size, match_pages=size, used_pages=size)
    return builder.build()


def found_blocks(requests: Iterable[BlockRequest], num_blocks: int, eviction: str) -> int:
    """Blocks that all requests find together, one after the other, where `num_blocks` blocks can be kept.

    One page more is for the last token of whoever is served.

    Raises:
        InvariantViolation: The cache is in disorder at the end.
    """
    cache = PrefixCache(CacheConfig(num_pages=num_blocks + 1, page_size=1, eviction=eviction))
    found = 0
    for namespace, blocks in requests:
        with cache.open(np.concatenate((blocks, OWN_TOKEN), dtype=np.int32), namespace) as seq:
            found += seq.matched_len
            missing = len(blocks) - seq.matched_len
            seq.reserve(missing + 1)
            seq.advance(missing)
    check(cache)
    return found
