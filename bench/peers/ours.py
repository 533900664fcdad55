"""radixcache."""

from collections.abc import Iterator

from bench.harness.meter import Meter
from bench.scenarios.life import serve
from bench.scenarios.saturated_queue import SaturatedQueue
from bench.workloads.material import Ids
from bench.workloads.prompt_stream import StreamedRequest
from radixcache import CacheConfig, PrefixCache, Tokens


class Ours:
    """The public verbs of `PrefixCache`."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self._cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
        self._page_size = page_size

    def make_tokens(self, ids: Ids | list[int]) -> Tokens:
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

    def cached_tokens(self) -> int:
        """See `Contender`."""
        return (self._cache.pages.evictable + self._cache.pages.locked) * self._page_size


class OurQueue(SaturatedQueue):
    """The waiting line under `lpm`: choosing, admitting, and following what the cache changes meanwhile."""

    def __init__(
        self, num_waiting: int, requests: Iterator[StreamedRequest], num_pages: int, page_size: int
    ) -> None:
        super().__init__("lpm", num_waiting, requests, num_pages=num_pages, page_size=page_size)

    @property
    def passes(self) -> Meter:
        """See `Queue`."""
        return self.dispatches
