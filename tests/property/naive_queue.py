"""The queue by brute force: who matches how far, who is held, and who is first, by asking for everybody."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from radixcache import Namespace, PrefixCache
from radixcache.namespace import namespace_key
from scheduler import PolicyOptions, Request

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Waiter:
    """A waiting request, as it stands at this moment."""

    request: Request
    usable: Prefix
    match: int
    page_size: int
    is_held: bool

    @property
    def number(self) -> int:
        return self.request.number

    @property
    def prefix(self) -> Prefix:
        return self.usable[: self.match]

    @property
    def root(self) -> Hashable:
        return namespace_key(self.request.namespace) if self.request.read else None

    @property
    def uncached(self) -> int:
        return len(self.request.prompt) - self.match


@dataclass(eq=False)
class Runner:
    """A running request; `retired` once its namespace was."""

    request: Request
    retired: bool = False

    def page_in_flight(self, page_size: int) -> tuple[Namespace, Prefix] | None:
        """Namespace and all tokens up to the end of the prompt page that it publishes next."""
        seq = self.request.sequence
        assert seq is not None
        end = seq.published_len + page_size
        if self.retired or not self.request.write or end > seq.prompt_len:
            return None
        return self.request.namespace, tuple(self.request.known_tokens())[:end]


def usable_prefix(request: Request, page_size: int) -> Prefix:
    """What a match may cover: whole pages in front of the last prompt token."""
    if not request.read:
        return ()
    return tuple(request.prompt)[: (len(request.prompt) - 1) // page_size * page_size]


def waiters_of(
    cache: PrefixCache, requests: Iterable[Request], runners: Iterable[Runner] = ()
) -> list[Waiter]:
    """Everybody who waits, oldest first."""
    page_size = cache.config.page_size
    in_flight = {page for runner in runners if (page := runner.page_in_flight(page_size)) is not None}
    waiters = []
    for request in requests:
        usable = usable_prefix(request, page_size)
        match = cache.peek(request.prompt, request.namespace).matched_len if request.read else 0
        next_page = usable[: match + page_size]
        is_held = len(next_page) == match + page_size and (request.namespace, next_page) in in_flight
        waiters.append(Waiter(request, usable, match, page_size, is_held))
    return sorted(waiters, key=lambda waiter: waiter.number)


def first_fcfs(waiters: list[Waiter]) -> Request | None:
    return next((waiter.request for waiter in waiters if not waiter.is_held), None)


def first_lpm(waiters: list[Waiter]) -> Request | None:
    offered = [waiter for waiter in waiters if not waiter.is_held]
    best = min(offered, key=lambda waiter: (-waiter.match, waiter.number), default=None)
    return None if best is None else best.request


def first_hrrn(waiters: list[Waiter], now: float) -> Request | None:
    def rank(waiter: Waiter) -> tuple[float, int]:
        assert waiter.request.submitted_at is not None
        return -(now - waiter.request.submitted_at + 1.0) / waiter.uncached, waiter.number

    best = min((waiter for waiter in waiters if not waiter.is_held), key=rank, default=None)
    return None if best is None else best.request


def first_dfs(waiters: list[Waiter]) -> Request | None:
    points: dict[Hashable, list[Waiter]] = {}
    for waiter in waiters:
        points.setdefault((waiter.root, waiter.prefix), []).append(waiter)
    ranked = []
    for (root, prefix), at_point in points.items():
        best = _heaviest(at_point, len(prefix), top=True)
        if best is not None:
            weight = sum(waiter.root == root and waiter.usable[: len(prefix)] == prefix for waiter in waiters)
            ranked.append((-len(prefix), weight, best.number, best.request))
    return min(ranked)[-1] if ranked else None


def _heaviest(group: list[Waiter], depth: int, *, top: bool) -> Waiter | None:
    """Whoever ends here, else into the next page that most need; `top`: passing over pages in flight."""
    ends_here = [waiter for waiter in group if len(waiter.usable) == depth]
    if ends_here:
        return ends_here[0]
    children: dict[Prefix, list[Waiter]] = {}
    for waiter in group:
        if not (top and waiter.is_held):
            children.setdefault(waiter.usable[depth : depth + waiter.page_size], []).append(waiter)
    ranked = [
        (-len(child), best.number, best)
        for child in children.values()
        if (best := _heaviest(child, depth + child[0].page_size, top=False)) is not None
    ]
    return min(ranked)[-1] if ranked else None


class NaiveKLPM:
    """The oldest once in k admissions."""

    def __init__(self, options: PolicyOptions) -> None:
        self._k = options.k
        self._num_admitted = 0

    def first(self, waiters: list[Waiter]) -> Request | None:
        return (first_lpm if self._num_admitted % self._k else first_fcfs)(waiters)

    def admitted(self) -> None:
        self._num_admitted += 1


class NaiveFair:
    """Deficits, one round at a time; a round pays every client, but who does not wait saves nothing."""

    def __init__(self, options: PolicyOptions) -> None:
        self._options = options
        self._deficits: dict[str | None, float] = {}

    def begins_to_wait(self, client: str | None) -> None:
        self._deficits[client] = min(0.0, self._deficits.get(client, 0.0))

    def first(self, waiters: list[Waiter]) -> Request | None:
        offered = [waiter for waiter in waiters if not waiter.is_held]
        clients = {waiter.request.client for waiter in offered}
        quantum = self._options.quantum
        while clients and all(self._deficits[client] <= 0 for client in clients):
            self._deficits = {client: deficit + quantum for client, deficit in self._deficits.items()}
        return first_lpm([waiter for waiter in offered if self._deficits[waiter.request.client] > 0])

    def charge(self, client: str | None, work: float) -> None:
        self._deficits[client] -= work


NaiveFirst = Callable[[list[Waiter], float], Request | None]

NAIVE: dict[str, NaiveFirst] = {
    "fcfs": lambda waiters, now: first_fcfs(waiters),
    "lpm": lambda waiters, now: first_lpm(waiters),
    "dfs": lambda waiters, now: first_dfs(waiters),
    "hrrn": first_hrrn,
}
"""Orders without a memory of their own."""
