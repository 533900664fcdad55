"""Requests one after the other through the verbs of the cache; knows nothing of LRU."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from radixcache import CacheConfig, PrefixCache

OWN_TOKEN = 2**31 - 1


def cache_that_keeps(num_pages: int, page_size: int) -> PrefixCache:
    """A cache in which `num_pages` pages can hold prefixes at any time.

    One page more than that: while a request is served, its own last token takes a private page, and after it
    that page is free, which the next request needs at once. So cached pages never exceed `num_pages`, and
    reach it whenever LRU of that capacity would be full.
    """
    return PrefixCache(CacheConfig(num_pages=num_pages + 1, page_size=page_size, eviction="lru"))


def hit_pages(
    cache: PrefixCache, prompts: Iterable[npt.NDArray[np.int32]], *, chunk: int | None = None
) -> list[int]:
    """Serve each prompt, computed and published `chunk` tokens at a time; return the pages each found.

    A prompt is whole pages and one token, which the last position of every match leaves out.
    """
    size = cache.config.page_size
    hits = []
    for prompt in prompts:
        seq = cache.open(prompt)
        assert seq.num_tokens % size == 1 % size
        hits.append(seq.matched_len // size)
        while (left := seq.num_tokens - seq.computed_len) > 0:
            extend_len = min(left, chunk or left)
            seq.reserve(extend_len)
            seq.advance(extend_len)
            if chunk is not None:
                seq.publish()
        seq.close()
    return hits


def with_own_token(tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return np.append(tokens, np.int32(OWN_TOKEN))
