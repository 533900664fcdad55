"""What every client may still be served for."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

BARRED: Final = -(2**30)
"""What is added to the match of a request whose client may not be served."""


class Balances:
    """Deficits of clients, each with a row as long as it is known; whoever is not known has 0.

    Complexity:
        O(1) for each call, but `begin_round`, `bars` and `forget` O(clients).
    """

    def __init__(self) -> None:
        self._handed_out = 0
        self._rows: dict[str | None, int] = {}
        self._free: list[int] = []
        self._since_start: list[float] = []
        """Deficits, less all that was handed out."""

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
            self._since_start[row] = -self._handed_out
        return row

    def deficit(self, client: str | None) -> float:
        """What a client may still be served for; negative where it owes."""
        row = self._rows.get(client)
        return 0.0 if row is None else self._since_start[row] + self._handed_out

    def set_deficit(self, client: str | None, deficit: float) -> None:
        """Say what a client may be served for."""
        self._since_start[self.row_of(client)] = deficit - self._handed_out

    def charge(self, client: str | None, cost: float) -> None:
        """A client was served."""
        self.set_deficit(client, self.deficit(client) - cost)

    def may_be_served(self, row: int) -> bool:
        """Whether the client with a row has something left."""
        return self._since_start[row] > -self._handed_out

    def begin_round(self, rows: npt.NDArray[np.int64], quantum: int) -> None:
        """Hand out quanta to everybody, so many that one of the clients with these rows may be served."""
        best = float(np.array(self._since_start)[rows].max()) + self._handed_out
        self._handed_out += (int(-best // quantum) + 1) * quantum

    def bars(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """0 for each row whose client may be served, `BARRED` for the others."""
        may_be_served = np.array(self._since_start) > -self._handed_out
        return np.where(may_be_served, np.int32(0), np.int32(BARRED)).take(rows)

    def forget(self, is_needed: Callable[[str | None], bool]) -> None:
        """Drop clients that owe nothing and are not needed."""
        for client in list(self._rows):
            if not is_needed(client) and self.deficit(client) >= 0:
                self._free.append(self._rows.pop(client))
