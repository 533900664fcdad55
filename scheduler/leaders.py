"""In-flight sharing: one request computes a page, those that need the same page wait for it."""

from radixcache import Namespace, PrefixCache, Tokens
from radixcache.allocator import PageArray
from radixcache.misses import Anchor
from scheduler.inner_observer import InnerObserver
from scheduler.policies.base import QueuePolicy
from scheduler.request import Request


class Leaders(InnerObserver):
    """Follows which prompt page each running request computes next, and holds who waits for it.

    A hold moves on with every chunk that is published, and ends with the last page that others share, or
    when the leader ends or is thrown back, or its namespace is retired; then one of those that waited leads
    on. An observer of the cache.

    Args:
        cache: The cache that leaders publish to; subscribes itself, after the orders within `policy`.
        policy: Is told of holds.

    Complexity:
        O(1) for each call, but for what `QueuePolicy.hold` costs; `cleared` O(leaders).
    """

    def __init__(self, cache: PrefixCache, policy: QueuePolicy) -> None:
        self._policy = policy
        self._led: dict[int, tuple[Request, tuple[Anchor, bytes]]] = {}
        cache.subscribe(self)

    def follow(self, request: Request) -> None:
        """A running request was admitted, or has published."""
        assert request.sequence is not None
        page = request.sequence.in_flight
        led = self._led.get(request.number)
        if led is not None and led[1] == page:
            return
        if page is not None:
            self._policy.hold(*page)
            self._led[request.number] = (request, page)
        if led is not None:
            self._policy.release(*led[1])
            if page is None:
                del self._led[request.number]

    def drop(self, request: Request) -> None:
        """A request runs no longer."""
        led = self._led.pop(request.number, None)
        if led is not None:
            self._policy.release(*led[1])

    def published(
        self, namespace: Namespace, parent_page: int | None, new_pages: PageArray, tokens: Tokens, depth: int
    ) -> None:
        """See `CacheObserver`. Leaders are followed as they publish."""

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        """See `CacheObserver`. What a leader stands on is locked."""

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        """See `CacheObserver`: who ran in a retired namespace publishes nothing that others can wait for."""
        for request, _ in list(self._led.values()):
            self.follow(request)
