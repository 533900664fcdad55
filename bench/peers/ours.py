"""radixcache."""

from bench.scenarios.life import serve
from bench.workloads.material import Ids
from radixcache import CacheConfig, PrefixCache, Tokens


class Ours:
    """The public verbs of `PrefixCache`."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self._cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))

    def make_tokens(self, ids: Ids) -> Tokens:
        """See `Contender`."""
        return Tokens(ids)

    def peek(self, tokens: Tokens) -> int:
        """See `Contender`."""
        return self._cache.peek(tokens).matched_len

    def hold(self, tokens: Tokens) -> int:
        """See `Contender`."""
        seq = self._cache.open(tokens)
        _ = seq.page_table
        seq.close()
        return seq.matched_len

    def serve(self, tokens: Tokens, output: Tokens | None) -> int:
        """See `Contender`."""
        return serve(self._cache, tokens, output)
