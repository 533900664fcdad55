"""Longest prefix match within, equal service between clients."""

from radixcache import PrefixCache
from scheduler.policies.base import ForestPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.node import WaitNode
from scheduler.waiting.points import GroupedPoints, by_match


class Fair(ForestPolicy):
    """Deficit longest prefix match: clients with a positive deficit take turns by match length.

    A client pays for the tokens its requests really compute and generate. When nobody who waits has anything
    left, everybody who waits gets a quantum. So for two clients that both have requests waiting, the work
    served differs by at most 2 * (U + quantum), where U is the largest overdraft: what one admission and the
    outputs until the next look cost.

    Complexity:
        `head`: O(clients that wait). The rest as `ForestPolicy`.

    Source:
        Cao et al., "Locality-aware Fair Scheduling in LLM Serving" (2025), DLPM; bound derived anew.
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._quantum = options.quantum
        self._output_weight = options.output_weight
        self._deficits: dict[str | None, float] = {}
        self._points = GroupedPoints(by_match)
        super().__init__(cache, self._points)

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self.forest.add(request, request.client)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        clients = self._points.groups
        if not clients:
            return None
        self._refill()
        firsts = [clients[client].first() for client in clients if self._deficit(client) > 0]
        point: WaitNode = min((point for point in firsts if point is not None), key=by_match)
        return self.forest.request_at(point)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`: the client pays for what is computed."""
        super().admitted(request, extend_len)
        self._deficits[request.client] = self._deficit(request.client) - extend_len

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`: the client pays for what was generated."""
        cost = self._output_weight * num_tokens
        self._deficits[request.client] = self._deficit(request.client) - cost

    def _deficit(self, client: str | None) -> float:
        return self._deficits.get(client, 0.0)

    def _refill(self) -> None:
        """Quanta for all who wait, until one of them has something."""
        clients = self._points.groups
        best = max(self._deficit(client) for client in clients)
        if best > 0:
            return
        num_rounds = int(-best // self._quantum) + 1
        for client in clients:
            self._deficits[client] = self._deficit(client) + num_rounds * self._quantum
