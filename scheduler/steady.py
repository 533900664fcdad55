"""Steps in which everybody who runs computes one token and gets another, made out of the step before."""

from collections.abc import Iterable
from itertools import repeat
from typing import Final, Self

import numpy as np

from radixcache import RadixCacheError, Tokens
from radixcache.tokens import TOKEN_BYTES
from scheduler.footprints import (
    GENERATED,
    KNOWN,
    NO_LIMIT,
    RESERVED,
    Counts,
    Footprints,
    footprint,
)
from scheduler.plan import Outputs, Row
from scheduler.request import Request

_LISTS: Final = {list, tuple}
_TOKENS: Final = {Tokens}


class SteadyDecodes:
    """Requests that decode, and nobody else runs: their rows move on by one position a step.

    Holds as long as nobody comes or goes, and each step brings each of them one token. What a request holds
    is looked at only where it needs a page.

    Args:
        requests: Everybody who runs, oldest first. Each has one known token without KV, behind its prompt.

    Complexity:
        O(requests) for each call, of which most is not in Python.
    """

    def __init__(self, requests: Iterable[Request]) -> None:
        self.requests = list(requests)
        self._ids = [request.request_id for request in self.requests]
        self._numbers = [request.number for request in self.requests]
        self._sequences = [request.sequence for request in self.requests if request.sequence is not None]
        self._starts = np.array([sequence.computed_len for sequence in self._sequences], dtype=np.int64)
        self._room = np.array([sequence.reserved_len for sequence in self._sequences], dtype=np.int64)
        left = (request.remaining for request in self.requests)
        self._num_steps = 0
        self._columns: Counts | None = None
        self._steps_left = min((each for each in left if each is not None), default=NO_LIMIT)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self | None:
        """Those who have these rows; `None` where one of the rows is not that of a steady decode."""
        listed = list(rows)
        return cls(row.request for row in listed) if listed and all(map(_is_steady, listed)) else None

    def __len__(self) -> int:
        return len(self.requests)

    def reserve(self, num_available: int) -> bool:
        """Get the pages for the next token of each, in their order.

        Returns:
            Whether so many are available; where not, nothing changed.
        """
        short = (self._starts >= self._room).nonzero()[0].tolist()
        if len(short) > num_available:
            return False
        for place in short:
            sequence = self._sequences[place]
            sequence.reserve(1)
            self._room[place] = sequence.reserved_len
        return True

    def footprints(self, candidate: Request) -> Footprints:
        """What they hold now, and one that may run. They are asked one by one the first time only."""
        everybody = [*self.requests, candidate]
        if self._columns is None:
            self._columns = Footprints.of(everybody).columns.copy()
            self._columns[KNOWN : GENERATED + 1] -= self._num_steps
        columns = self._columns.copy()
        columns[KNOWN : GENERATED + 1] += self._num_steps
        columns[RESERVED, :-1] = self._room
        columns[:, -1] = footprint(candidate)
        return Footprints(everybody, columns)

    def rows(self) -> dict[int, Row]:
        """The rows of the next step by request number."""
        parts = zip(self.requests, self._starts.tolist(), repeat(1), repeat(1), strict=False)
        return dict(zip(self._numbers, map(tuple.__new__, repeat(Row), parts), strict=False))

    def take_in(self, tokens: Tokens) -> None:
        """Every request got a token, in their order; nobody reaches its limit with it, see `tokens_in`."""
        self._steps_left -= 1
        self._num_steps += 1
        self._starts += 1
        data = tokens.data
        new = map(data.__getitem__, map(slice, range(0, len(data), TOKEN_BYTES), _ends(data)))
        parts = zip(self.requests, self._sequences, tokens, new, self._starts.tolist(), strict=True)
        for request, sequence, token, appended, stop in parts:
            sequence.append(Tokens.trusted(appended))
            sequence.advance(1)
            request.output.append(token)
            request.ever_computed = stop

    def tokens_in(self, outputs: Outputs) -> Tokens | None:
        """One token for each request, in their order; changes nothing.

        Returns:
            `None` where somebody reaches its limit, or the outputs are not plainly one token for each.
        """
        if self._steps_left <= 1 or type(outputs) is not dict or outputs.keys() != set(self._ids):
            return None
        found = [outputs[request_id] for request_id in self._ids]
        kinds = set(map(type, found))
        if kinds == _TOKENS:
            parts = [each.data for each in found if isinstance(each, Tokens)]
            return Tokens.trusted(b"".join(parts)) if set(map(len, parts)) == {TOKEN_BYTES} else None
        if kinds <= _LISTS:
            try:
                return Tokens([token for (token,) in found])
            except (ValueError, RadixCacheError):
                return None
        return None


def _ends(data: bytes) -> range:
    return range(TOKEN_BYTES, len(data) + 1, TOKEN_BYTES)


def _is_steady(row: Row) -> bool:
    request, start, extend_len, max_tokens = row
    return extend_len == max_tokens == 1 and start >= request.prompt_len and start >= request.ever_computed
