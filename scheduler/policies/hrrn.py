"""Highest response ratio next."""

from radixcache import PrefixCache
from scheduler.policies.base import ForestPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.columns import Column, RequestColumns
from scheduler.waiting.node import WaitNode


class HRRN(ForestPolicy):
    """The request with the highest (time waited + 1) / (tokens to compute).

    Short work and much of it cached comes soon, and waiting raises everybody's ratio without bound.

    Complexity:
        `head`: as `RequestColumns.best`.

    Source:
        Brinch Hansen, "Highest Response Ratio Next" (1971), over uncached tokens.
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._page_size = cache.config.page_size
        self._columns = RequestColumns(self._is_held)
        super().__init__(cache, self._columns)

    def _is_held(self, node: WaitNode) -> bool:
        return self.forest.is_held(node)

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        super().add(request)
        self._columns.add(request, self.forest.node_of(request))

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self._columns.remove(request)
        super().remove(request)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`."""
        self._columns.remove(request)
        super().admitted(request, extend_len)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""

        def ratio(since: Column, lengths: Column, matches: Column) -> Column:
            return (now - since + 1.0) / (lengths - matches * self._page_size)

        return self._columns.best(ratio)
