"""What every client may still be served for."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from scheduler.waiting.rows import grown

BARRED: Final = -(2**30)
"""What is added to the match of a request whose client may not be served."""


class Balances:
    """Deficits of clients, each with a row as long as it is known; whoever is not known has 0.

    Complexity:
        O(1) for each call, but `begin_round` O(clients) in NumPy, `forget` O(clients).
    """

    def __init__(self) -> None:
        self._handed_out = 0
        self._rows: dict[str | None, int] = {}
        self._free: list[int] = []
        self._since_start = np.zeros(8)
        self._bars = np.full(8, BARRED, dtype=np.int32)

    def __len__(self) -> int:
        """Clients that are known."""
        return len(self._rows)

    def row_of(self, client: str | None) -> int:
        """The row of a client, the same until it is forgotten."""
        row = self._rows.get(client)
        if row is None:
            row = self._rows[client] = self._free.pop() if self._free else len(self._rows)
            if row == len(self._since_start):
                self._since_start, self._bars = grown(self._since_start), grown(self._bars)
            self._since_start[row], self._bars[row] = -self._handed_out, BARRED
        return row

    def deficit(self, client: str | None) -> float:
        """What a client may still be served for; negative where it owes."""
        row = self._rows.get(client)
        return 0.0 if row is None else float(self._since_start[row]) + self._handed_out

    def set_deficit(self, client: str | None, deficit: float) -> None:
        """Say what a client may be served for."""
        row = self.row_of(client)  # may make room
        self._since_start[row] = deficit - self._handed_out
        self._bars[row] = 0 if self.deficit(client) > 0 else BARRED

    def charge(self, client: str | None, cost: float) -> None:
        """A client was served."""
        row = self._rows.get(client)
        row = self.row_of(client) if row is None else row
        since_start = float(self._since_start[row]) + self._handed_out - cost - self._handed_out
        self._since_start[row] = since_start
        if since_start <= -self._handed_out:
            self._bars[row] = BARRED

    def may_be_served(self, row: int) -> bool:
        """Whether the client with a row has something left."""
        return not self._bars[row]

    def begin_round(self, rows: npt.NDArray[np.int64], quantum: int) -> None:
        """Hand out quanta to everybody, so many that one of the clients with these rows may be served."""
        best = float(self._since_start[rows].max()) + self._handed_out
        self._handed_out += (int(-best // quantum) + 1) * quantum
        self._bars[:] = np.where(self._since_start > -self._handed_out, 0, BARRED)

    def bars(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """0 for each row whose client may be served, `BARRED` for the others."""
        return self._bars.take(rows)

    def forget(self, is_needed: Callable[[str | None], bool]) -> None:
        """Drop clients that owe nothing and are not needed."""
        for client in list(self._rows):
            if not is_needed(client) and self.deficit(client) >= 0:
                self._free.append(self._rows.pop(client))
