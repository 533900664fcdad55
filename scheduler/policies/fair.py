"""Longest prefix match within, equal service between clients."""

from collections import Counter
from typing import ClassVar, Final

import numpy as np

from radixcache import PrefixCache
from scheduler.policies.balances import BARRED, Balances
from scheduler.policies.base import ColumnPolicy, PolicyOptions
from scheduler.policies.matches import LongestMatches, Matches
from scheduler.request import Request
from scheduler.waiting.columns import Keys

_CLIENT = 0
_MANY_IDLE = 64
_MATCHES: Final = Keys(of=lambda _, match: match, of_all=lambda matches: matches)


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
        `head`: see `LongestMatches` and `RequestColumns`, however many clients there are. `generated` O(1).
        Remembers the clients that wait and those that owe.

    Source:
        Cao et al., "Locality-aware Fair Scheduling in LLM Serving" (2025), DLPM; bound derived anew.
    """

    counts_by_client: ClassVar[bool] = True

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        self._quantum = options.quantum
        self._output_weight = options.output_weight
        self._balances = Balances()
        self._num_waiting: Counter[str | None] = Counter()
        self._shortlist = LongestMatches(self._matches, lambda: self._columns.settle(), self._balances)
        super().__init__(cache, self._shortlist, _MATCHES, (np.int32, BARRED), (np.int64, 0))

    def _matches(self) -> Matches:
        return Matches(self._columns.numbers, self._columns.own(_CLIENT), self._columns.keys)

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
        number = self._shortlist.first()
        if number is None and (clients := self._shortlist.clients()):
            self._balances.begin_round(clients, self._quantum)
            self._shortlist.round_began()
            number = self._shortlist.first()
        return None if number is None else self.forest.numbered(number)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`: the client pays for what is computed."""
        super().admitted(request, extend_len)
        self._balances.charge(request.client, extend_len)

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`: the client pays for what was generated."""
        self._balances.charge(request.client, self._output_weight * num_tokens)

    def _left(self, client: str | None) -> None:
        self._num_waiting[client] -= 1
        if not self._num_waiting[client]:
            del self._num_waiting[client]

    def _forget_idle(self) -> None:
        """Drop clients that neither wait nor owe, when they are many."""
        if len(self._balances) > 2 * len(self._num_waiting) + _MANY_IDLE:
            self._balances.forget(self._num_waiting.__contains__)
