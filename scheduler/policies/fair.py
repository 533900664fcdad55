"""Longest prefix match within, equal service between clients."""

from collections import Counter

from radixcache import PrefixCache
from scheduler.policies.base import ForestPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.node import WaitNode
from scheduler.waiting.points import GroupedPoints, by_match

_MANY_IDLE = 64


class Fair(ForestPolicy):
    """Deficit longest prefix match: clients with a positive deficit take turns by match length.

    A client pays for the tokens its requests really compute and generate. When nobody who may come next has
    anything left, a round begins, which gives a quantum to everybody. So for two clients that both have
    requests waiting, the work served differs by at most 2 * (U + quantum), where U is the largest overdraft:
    what one admission and the outputs until the next look cost. A client all of whose requests are held
    misses rounds of work, and catches up on them when it is not.

    Rounds also pay the debts of clients that do not wait, but these save nothing: who begins to wait has at
    most 0.

    Complexity:
        `head`: O(clients that wait). The rest as `ForestPolicy`, amortised. Remembers the clients that wait
        and those that owe.

    Source:
        Cao et al., "Locality-aware Fair Scheduling in LLM Serving" (2025), DLPM; bound derived anew.
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._quantum = options.quantum
        self._output_weight = options.output_weight
        self._handed_out = 0
        self._since_start: dict[str | None, float] = {}
        self._num_waiting: Counter[str | None] = Counter()
        self._points = GroupedPoints(by_match)
        super().__init__(cache, self._points)

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        client = request.client
        if not self._num_waiting[client]:
            self._forget_idle()
            self._set_deficit(client, min(self._deficit(client), 0))
        self._num_waiting[client] += 1
        self.forest.add(request, client)

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        super().remove(request)
        self._left(request.client)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        clients = self._points.groups
        if not clients:
            return None
        best = max(self._deficit(client) for client in clients)
        if best <= 0:
            self._handed_out += (int(-best // self._quantum) + 1) * self._quantum
        firsts = [clients[client].first() for client in clients if self._deficit(client) > 0]
        point: WaitNode = min((point for point in firsts if point is not None), key=by_match)
        return self.forest.request_at(point)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`: the client pays for what is computed."""
        super().admitted(request, extend_len)
        self._left(request.client)
        self._set_deficit(request.client, self._deficit(request.client) - extend_len)

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`: the client pays for what was generated."""
        cost = self._output_weight * num_tokens
        self._set_deficit(request.client, self._deficit(request.client) - cost)

    def _left(self, client: str | None) -> None:
        self._num_waiting[client] -= 1
        if not self._num_waiting[client]:
            del self._num_waiting[client]

    def _deficit(self, client: str | None) -> float:
        since_start = self._since_start.get(client)
        return 0.0 if since_start is None else since_start + self._handed_out

    def _set_deficit(self, client: str | None, deficit: float) -> None:
        self._since_start[client] = deficit - self._handed_out

    def _forget_idle(self) -> None:
        """Drop clients that neither wait nor owe, when they are many."""
        if len(self._since_start) > 2 * len(self._num_waiting) + _MANY_IDLE:
            self._since_start = {
                client: since_start
                for client, since_start in self._since_start.items()
                if client in self._num_waiting or since_start + self._handed_out < 0
            }
