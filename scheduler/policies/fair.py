"""Longest prefix match within, equal service between clients."""

from collections import Counter
from typing import Any

import numpy as np

from radixcache import PrefixCache
from scheduler.policies.balances import BARRED, Balances
from scheduler.policies.base import ColumnPolicy, PolicyOptions
from scheduler.request import Request
from scheduler.waiting.rows import Array

_CLIENT = 0
_MANY_IDLE = 64


class Fair(ColumnPolicy):
    """Deficit longest prefix match: clients with a positive deficit take turns by match length.

    A client pays for the tokens its requests really compute and generate. When nobody who may come next has
    anything left, a round begins, which gives a quantum to everybody. So for two clients that both have
    requests waiting, the work served differs by at most 2 * (U + quantum), where U is the largest overdraft:
    what one admission and the outputs until the next look cost. A client all of whose requests are held
    misses rounds of work, and catches up on them when it is not.

    Rounds also pay the debts of clients that do not wait, but these save nothing: who begins to wait has at
    most 0.

    Complexity:
        `head`: O(waiting) in NumPy, some 20 µs for 10,000, however many clients there are; see
        `RequestColumns`. `generated` O(1). Remembers the clients that wait and those that owe.

    Source:
        Cao et al., "Locality-aware Fair Scheduling in LLM Serving" (2025), DLPM; bound derived anew.
    """

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._quantum = options.quantum
        self._output_weight = options.output_weight
        self._balances = Balances()
        self._num_waiting: Counter[str | None] = Counter()
        super().__init__(cache, _match, (np.int32, BARRED), (np.int64, 0))

    @property
    def is_as_new(self) -> bool:
        """See `ForestPolicy`. Never: clients owe for what they generate later."""
        return False

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        client = request.client
        if not self._num_waiting[client]:
            self._forget_idle()
            self._balances.set_deficit(client, min(self._balances.deficit(client), 0))
        self._num_waiting[client] += 1
        self._add(request, self._balances.row_of(client))

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        super().remove(request)
        self._left(request.client)

    def head(self, now: float) -> Request | None:
        """See `QueuePolicy`."""
        if not len(self):
            return None
        self._columns.follow()
        clients, matches = self._columns.own(_CLIENT), self._columns.keys
        row = self._longest(clients, matches)
        if row is None and (matches >= 0).any():
            self._balances.begin_round(clients[matches >= 0], self._quantum)
            row = self._longest(clients, matches)
        return None if row is None else self._request_in(row)

    def _longest(self, clients: Array, matches: Array) -> int | None:
        """The first of the rows with the longest match whose client may be served."""
        scores = self._balances.bars(clients)
        scores += matches
        row = int(scores.argmax())
        return row if scores[row] >= 0 else None

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`: the client pays for what is computed."""
        super().admitted(request, extend_len)
        self._charge(request.client, extend_len)

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`: the client pays for what was generated."""
        self._charge(request.client, self._output_weight * num_tokens)

    def _charge(self, client: str | None, cost: float) -> None:
        self._balances.set_deficit(client, self._balances.deficit(client) - cost)

    def _left(self, client: str | None) -> None:
        self._num_waiting[client] -= 1
        if not self._num_waiting[client]:
            del self._num_waiting[client]

    def _forget_idle(self) -> None:
        """Drop clients that neither wait nor owe, when they are many."""
        if len(self._balances) > 2 * len(self._num_waiting) + _MANY_IDLE:
            self._balances.forget(self._num_waiting.__contains__)


def _match(match: Any, rows: Any) -> Any:
    del rows  # whoever asks
    return match
