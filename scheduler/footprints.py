"""What requests hold and how far they have come, as columns."""

from collections.abc import Iterable, Sequence
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from scheduler.request import Request

Counts = npt.NDArray[np.int64]

NUM_COLUMNS: Final = 6
NUMBER, KNOWN, GENERATED, LIMIT, OWN_FROM, RESERVED = range(NUM_COLUMNS)
NO_LIMIT: Final = 2**62
"""Stands for the output limit of a request that has none."""


class Footprints:
    """What requests hold and how far they have come.

    Attributes:
        requests: Whose, in the order of the columns.
        columns: int64 of shape [6, requests]; all that follow are lines of it.
        numbers: Order of submission.
        known: Tokens of prompt and output.
        generated: Tokens of output.
        limits: Tokens of output at most, `NO_LIMIT` where there is none.
    """

    def __init__(self, requests: Sequence[Request], columns: Counts) -> None:
        self.requests = requests
        self.columns = columns
        self.numbers: Counts = columns[NUMBER]
        self.known: Counts = columns[KNOWN]
        self.generated: Counts = columns[GENERATED]
        self.limits: Counts = columns[LIMIT]

    @classmethod
    def of(cls, requests: Iterable[Request]) -> Self:
        """As the requests say themselves. O(n)."""
        listed = list(requests)
        columns = np.array([footprint(request) for request in listed], dtype=np.int64)
        return cls(listed, columns.reshape(-1, NUM_COLUMNS).T)

    def __add__(self, other: Self) -> Self:
        columns = np.concatenate((self.columns, other.columns), axis=1)
        return type(self)([*self.requests, *other.requests], columns)

    def __len__(self) -> int:
        return len(self.requests)

    def own_pages(self, page_size: int) -> Counts:
        """Pages for the known tokens behind what was matched at admission, int64 of shape [requests]."""
        pages: Counts = -(-self.known // page_size) - self.columns[OWN_FROM] // page_size
        return pages

    def held_pages(self, page_size: int) -> int:
        """Pages held behind what was matched, all together. Who was not admitted yet holds none."""
        return int((self.columns[RESERVED] - self.columns[OWN_FROM]).sum()) // page_size


def footprint(request: Request) -> tuple[int, ...]:
    """The columns of one request."""
    limit, sequence = request.max_new_tokens, request.sequence
    return (
        request.number,
        request.num_known,
        len(request.output),
        NO_LIMIT if limit is None else limit,
        request.own_from,
        request.own_from if sequence is None else sequence.reserved_len,
    )
