"""What the scheduler tells the outside about requests."""

from typing import Protocol

from scheduler.request import Request


class SchedulerObserver(Protocol):
    """Told of every request that comes or ends, after the change is complete.

    An observer may read the request, never change it, nor call the scheduler. It should not raise: the verb
    is completed all the same, and raises that then.
    """

    def submitted(self, request: Request, now: float) -> None:
        """A request was let in; one that is refused is not reported."""
        ...

    def ended(self, request: Request, now: float) -> None:
        """A request finished, failed, was aborted or missed its deadline: `request.state` says which."""
        ...
