"""What every client may still be served for."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from scheduler.waiting.rows import doubled


class Balances:
    """Deficits of clients, each with a row as long as it is known; whoever is not known has 0.

    Complexity:
        O(1) for each call; `forget` O(clients).
    """

    def __init__(self) -> None:
        self._handed_out = 0
        self._rows: dict[str | None, int] = {}
        self._free: list[int] = []
        self._since_start = np.zeros(8)

    def __len__(self) -> int:
        """Clients that are known."""
        return len(self._rows)

    def row_of(self, client: str | None) -> int:
        """The row of a client, the same until it is forgotten."""
        row = self._rows.get(client)
        if row is None:
            row = self._rows[client] = self._free.pop() if self._free else len(self._rows)
            if row == len(self._since_start):
                self._since_start = doubled(self._since_start)
            self._since_start[row] = -self._handed_out
        return row

    def deficit(self, client: str | None) -> float:
        """What a client may still be served for; negative where it owes."""
        row = self._rows.get(client)
        return 0.0 if row is None else float(self._since_start[row]) + self._handed_out

    def set_deficit(self, client: str | None, deficit: float) -> None:
        """Say what a client may be served for."""
        row = self.row_of(client)  # may make room
        self._since_start[row] = deficit - self._handed_out

    def hand_out(self, tokens: int) -> None:
        """Everybody may be served for so many tokens more."""
        self._handed_out += tokens

    def in_rows(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Deficits of the clients that have these rows, less `handed_out`."""
        return self._since_start.take(rows)

    @property
    def handed_out(self) -> int:
        """What was handed out to everybody so far, tokens."""
        return self._handed_out

    def forget(self, is_needed: Callable[[str | None], bool]) -> None:
        """Drop clients that owe nothing and are not needed."""
        for client in list(self._rows):
            if not is_needed(client) and self.deficit(client) >= 0:
                self._free.append(self._rows.pop(client))
