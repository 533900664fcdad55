"""A cache that notes how long its observers take."""

from bench.harness.meter import Meter
from radixcache import CacheConfig, Namespace, PrefixCache, Tokens
from radixcache.allocator import PageArray
from radixcache.events import CacheObserver


class TimedCache(PrefixCache):
    """The real cache; the time of whatever subscribes is added to a meter.

    Args:
        config: Settings.
        meter: Where to.
    """

    def __init__(self, config: CacheConfig, meter: Meter) -> None:
        self._meter = meter
        self._timed: dict[CacheObserver, _Timed] = {}
        super().__init__(config)

    def subscribe(self, observer: CacheObserver) -> None:
        """See `PrefixCache`."""
        timed = self._timed[observer] = _Timed(observer, self._meter)
        super().subscribe(timed)

    def unsubscribe(self, observer: CacheObserver) -> None:
        """See `PrefixCache`."""
        super().unsubscribe(self._timed.pop(observer))


class _Timed:
    def __init__(self, inner: CacheObserver, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    def published(
        self, namespace: Namespace, parent_page: int | None, new_pages: PageArray, tokens: Tokens, depth: int
    ) -> None:
        self._meter.time(self._inner.published, namespace, parent_page, new_pages, tokens, depth)

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        self._meter.time(self._inner.evicted, namespace, pages, surviving_parent_page, depth)

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        self._meter.time(self._inner.cleared, namespace, everything=everything)
