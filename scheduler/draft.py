"""A plan while it is being made: rows come, and go again when their request has to give way."""

from itertools import islice

from radixcache import PageCopy
from scheduler.plan import Decodes, Row, StepPlan
from scheduler.request import Request


class Draft:
    """A plan in the making.

    Attributes:
        budget: Tokens that may still be planned.
        rows: Rows by request number.
        decodes: What is computed besides the rows.
        preempted: Requests thrown back so far.
        failed: Requests that ended so far.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.rows: dict[int, Row] = {}
        self.decodes = Decodes()
        self._num_steady = 0
        self.preempted: list[Request] = []
        self.failed: list[Request] = []

    def add(self, request: Request, extend_len: int) -> None:
        """Plan `extend_len` tokens of a request, whose pages are reserved."""
        sequence = request.sequence
        assert sequence is not None
        start = sequence.computed_len
        generates = start + extend_len == sequence.num_tokens
        self.rows[request.number] = Row(request, start, extend_len, 1 if generates else 0)
        self.budget -= extend_len

    def decode(self, rows: dict[int, Row]) -> None:
        """Plan the rows of steady decodes, before any other."""
        self.rows = rows
        self.budget -= len(rows)
        self._num_steady = len(rows)

    def drop(self, request: Request) -> None:
        """Take a request's row out again, if it has one."""
        row = self.rows.pop(request.number, None)
        if row is not None:
            self.budget += row.extend_len

    def coalesce(self, num_steps: int) -> None:
        """Let every row generate so many tokens; pages are reserved."""
        for number, row in self.rows.items():
            self.rows[number] = row._replace(max_tokens=num_steps)

    def plan(self, number: int) -> StepPlan:
        """The finished plan, with the page copies its rows wait for."""
        copies: list[PageCopy] = []
        for row in islice(self.rows.values(), self._num_steady, None):
            assert row.request.sequence is not None
            copies += row.request.sequence.take_copies()
        return StepPlan(
            number,
            tuple(self.rows.values()),
            tuple(copies),
            tuple(self.preempted),
            tuple(self.failed),
            self.decodes,
        )
