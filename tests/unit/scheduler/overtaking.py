"""Counts overtakes by their definition, beside the scheduler."""

from collections.abc import Callable

from scheduler import Request, RequestState
from tests.unit.scheduler.loop import Loop


class OvertakeCounter:
    """For each waiting request, the first admissions of requests with larger numbers, in its own group.

    Rows of a plan stand in the order of admission, so the plans say who was admitted before whom.
    """

    def __init__(
        self,
        loop: Loop,
        group_of: Callable[[Request], object] = lambda request: None,
        *,
        is_bounded: bool = True,
    ) -> None:
        self.loop = loop
        self.is_bounded = is_bounded
        self.times: dict[int, int] = {}
        self.limits: dict[int, int] = {}
        self.first_admissions: list[Request] = []
        self._group_of = group_of
        self._waiting: dict[int, Request] = {}

    def submit(self, *args: object, **hints: object) -> Request:
        request = self.loop.submit(*args, **hints)
        group = self._group_of(request)
        num_waiting = sum(self._group_of(other) == group for other in self.waiting())
        limit = self.loop.scheduler.config.max_overtakes or max(512, num_waiting)
        self.limits[request.number] = limit if self.is_bounded else 10**9
        self._waiting[request.number] = request
        self.times[request.number] = 0
        return request

    def waiting(self) -> list[Request]:
        """Requests that were never admitted, oldest first."""
        self._waiting = {
            number: request
            for number, request in self._waiting.items()
            if request.state is RequestState.WAITING
        }
        return list(self._waiting.values())

    def step(self) -> None:
        before = self.waiting()
        plan = self.loop.step()
        for row in plan.rows:
            if row.request in before:
                self._note(row.request, before)
        still = [request.number for request in self.waiting()]
        assert all(self.times[number] <= self.limits[number] for number in still)

    def _note(self, admitted: Request, before: list[Request]) -> None:
        before.remove(admitted)
        self.first_admissions.append(admitted)
        assert self.times[admitted.number] <= self.limits[admitted.number]
        for request in before:
            if request.number < admitted.number and self._group_of(request) == self._group_of(admitted):
                self.times[request.number] += 1

    def run(self, max_steps: int = 5_000) -> None:
        for _ in range(max_steps):
            if self.loop.scheduler.is_idle:
                return
            self.step()
        raise AssertionError(f"not idle after {max_steps} steps")
