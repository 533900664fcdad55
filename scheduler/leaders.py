"""In-flight sharing: one request computes a page, those that need the same page wait for it."""

from radixcache import Sequence
from scheduler.policies.base import QueuePolicy
from scheduler.request import Request
from scheduler.waiting.forest import Anchor


class Leaders:
    """Follows which prompt page each running request computes next, and holds who waits for it.

    A hold moves on with every chunk that is published, and ends with the last page that others share, or
    when the leader ends or is thrown back; then one of those that waited leads on.

    Complexity:
        O(1) for each call, but for what `QueuePolicy.hold` costs.
    """

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._led: dict[int, tuple[Anchor, bytes]] = {}

    def follow(self, request: Request) -> None:
        """A running request was admitted, or has published."""
        assert request.sequence is not None
        page = _next_page(request.sequence)
        led = self._led.get(request.number)
        if page == led:
            return
        if page is not None:
            self._policy.hold(*page)
            self._led[request.number] = page
        if led is not None:
            self._policy.release(*led)
            if page is None:
                del self._led[request.number]

    def drop(self, request: Request) -> None:
        """A request runs no longer."""
        led = self._led.pop(request.number, None)
        if led is not None:
            self._policy.release(*led)


def _next_page(sequence: Sequence) -> tuple[Anchor, bytes] | None:
    return sequence.in_flight
