"""What every client may still be served for."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.waiting.rows import grown

BARRED: Final = -(2**30)
"""What is added to the match of a request whose client may not be served."""


class Balances:
    """Deficits of clients, each with a row as long as it is known; whoever is not known has 0.

    Complexity:
        O(1) for each call, but `begin_round` and `forget` O(clients), `bars` O(rows) in NumPy.
    """

    def __init__(self) -> None:
        self._handed_out = 0
        self._rows: dict[str | None, int] = {}
        self._free: list[int] = []
        self._since_start: list[float] = []
        """Deficits, less all that was handed out."""
        self._bars = np.full(8, BARRED, dtype=np.int32)
        """By row; 0 where the client may be served."""

    def __len__(self) -> int:
        """Clients that are known."""
        return len(self._rows)

    def row_of(self, client: str | None) -> int:
        """The row of a client, the same until it is forgotten."""
        row = self._rows.get(client)
        if row is None:
            row = self._rows[client] = self._free.pop() if self._free else len(self._since_start)
            if row == len(self._since_start):
                self._since_start.append(0.0)
            if row == len(self._bars):
                self._bars = grown(self._bars)
            self._since_start[row], self._bars[row] = -self._handed_out, BARRED
        return row

    def deficit(self, client: str | None) -> float:
        """What a client may still be served for; negative where it owes."""
        row = self._rows.get(client)
        return 0.0 if row is None else self._since_start[row] + self._handed_out

    def set_deficit(self, client: str | None, deficit: float) -> None:
        """Say what a client may be served for."""
        row = self.row_of(client)
        might_be_served = self.may_be_served(row)
        self._since_start[row] = deficit - self._handed_out
        if self.may_be_served(row) != might_be_served:
            self._bars[row] = BARRED if might_be_served else 0

    def charge(self, client: str | None, cost: float) -> None:
        """A client was served."""
        self.set_deficit(client, self.deficit(client) - cost)

    def may_be_served(self, row: int) -> bool:
        """Whether the client with a row has something left."""
        return self._since_start[row] > -self._handed_out

    def begin_round(self, rows: Iterable[int], quantum: int) -> None:
        """Hand out quanta to everybody, so many that one of the clients with these rows may be served."""
        best = max(self._since_start[row] for row in rows) + self._handed_out
        self._handed_out += (int(-best // quantum) + 1) * quantum
        since_start = np.array(self._since_start)
        self._bars[: len(since_start)] = np.where(since_start > -self._handed_out, 0, BARRED)

    def bars(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """0 for each row whose client may be served, `BARRED` for the others."""
        return self._bars.take(rows)

    def forget(self, is_needed: Callable[[str | None], bool]) -> None:
        """Drop clients that owe nothing and are not needed."""
        for client in list(self._rows):
            if not is_needed(client) and self.deficit(client) >= 0:
                self._free.append(self._rows.pop(client))
