"""Who gives way when pages run out."""

from collections.abc import Iterable

from scheduler.request import Request


def choose_victim(running: Iterable[Request]) -> Request | None:
    """The running request to throw back: least work lost, then youngest, never the oldest.

    What a request computed itself is what it may lose: it is published, but others may evict it.

    Returns:
        `None` where only one runs.

    Complexity:
        O(running).
    """
    requests = list(running)
    if len(requests) < 2:
        return None
    oldest = min(requests, key=lambda request: request.number)
    others = (request for request in requests if request is not oldest)
    return min(others, key=lambda request: (_work(request), -request.number))


def _work(request: Request) -> int:
    assert request.sequence is not None
    return request.sequence.computed_len - request.own_from
