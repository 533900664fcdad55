"""Least recently used: the default."""

from radixcache.eviction.base import EvictionPolicy


class LRU(EvictionPolicy):
    """Evicts the leaf whose path was used longest ago.

    Equal, page for page, to touching every page of a path at each use, the root last.

    Source:
        Leaf-wise LRU over a radix tree: Zheng et al., "SGLang" (2023). Here victims are trimmed page by page,
        which makes it a stack algorithm (Mattson et al., 1970).
    """
