"""The baseline: a cache of the same interface that shares nothing."""

from radixcache.cache import Match, PrefixCache, as_prompt
from radixcache.misses import Miss, MissReason
from radixcache.namespace import Namespace, namespace_key
from radixcache.sequence import Sequence
from radixcache.tokens import TokenSource


class NullPrefixCache(PrefixCache):
    """Hands out pages and counts lookups as `PrefixCache` does, but finds and publishes nothing.

    An engine without prefix caching is the engine with this class in the cache's place.

    Example:
        >>> from radixcache import CacheConfig
        >>> cache = NullPrefixCache(CacheConfig(num_pages=4, page_size=2))
        >>> with cache.open([1, 2, 3]) as seq:
        ...     seq.reserve(3)
        ...     seq.advance(3)
        >>> cache.peek([1, 2, 3]).matched_len, cache.pages.free, cache.stats.prompt_tokens
        (0, 4, 3)
    """

    def peek(self, prompt: TokenSource, namespace: Namespace = None) -> Match:
        """Finds nothing; refuses what `PrefixCache.peek` refuses. O(len(prompt)) for a check of it."""
        as_prompt(prompt)
        namespace_key(namespace)
        return Match(0, [])

    def open(
        self,
        prompt: TokenSource,
        namespace: Namespace = None,
        *,
        read: bool = True,
        write: bool = True,
        resumed: bool = False,
        priority: int = 0,
        retain: float | None = None,
    ) -> Sequence:
        """A sequence that matched nothing and will publish nothing; see `PrefixCache.open`."""
        seq = super().open(
            prompt, namespace, read=read, write=False, resumed=resumed, priority=priority, retain=retain
        )
        if read:
            seq.miss = Miss(MissReason.NEVER_SEEN, seq.prompt_len - 1, MissReason.LAST_TOKEN, 1)
        return seq
