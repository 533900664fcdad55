"""Who should be next, by brute force: everybody who waits is matched anew.

Exact for every order but two: of `dfs` the length of the match is checked (which subtree is heaviest is not),
of `fair` the order within the client who was chosen. Nobody may be held.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable

from bench.errors import expect
from radixcache import PrefixCache
from scheduler import PolicyOptions, Request, SchedulerConfig
from scheduler.policies import UNBOUNDED, RematchLPM


class QueueOracle:
    """Follows a queue beside the real one.

    Args:
        policy: Name of the order.
        cache: The cache that the requests wait for.
        config: Settings of the real queue.
    """

    def __init__(self, policy: str, cache: PrefixCache, config: SchedulerConfig) -> None:
        self._policy = policy
        self._cache = cache
        self._config = config
        self._options = config.policy_options
        self._waiting: dict[int, Request] = {}
        self._limits: dict[int, int] = {}
        self._admitted: list[Request] = []
        self.num_checked = 0

    def joined(self, request: Request) -> None:
        """A request waits from now on."""
        self._limits[request.number] = self._config.overtakes_allowed(len(self._group(request)))
        self._waiting[request.number] = request

    def admitted(self, request: Request) -> None:
        """A request waits no longer."""
        del self._waiting[request.number]
        self._admitted.append(request)

    def waiting(self) -> list[Request]:
        """Everybody who waits, oldest first."""
        return list(self._waiting.values())

    def rematch(self, among: Iterable[Request] | None = None) -> Callable[[], Request | None]:
        """The longest match among those who wait, as a call to time."""
        oracle = RematchLPM(self._cache, PolicyOptions())
        for request in self._waiting.values() if among is None else among:
            oracle.add(request)
        return lambda: oracle.head(0.0)

    def check(self, found: Request | None, now: float) -> None:
        """Compare what the queue says with what it should.

        Raises:
            WrongResult: Another request is next.
        """
        assert found is not None
        self.num_checked += 1
        due = self._due(found)
        if due is not None:
            expect(f"{self._policy}: next, as it is due", found.number, due.number)
        elif self._policy == "dfs":
            expect("dfs: tokens matched", self._matched(found), self._matched(self.rematch()()))
        else:
            expect(f"{self._policy}: next", found.number, self._first(found, now).number)

    def _first(self, found: Request, now: float) -> Request:
        waiting = list(self._waiting.values())
        if self._policy == "fcfs" or (self._policy == "k-lpm" and len(self._admitted) % self._options.k == 0):
            return waiting[0]
        if self._policy == "hrrn":
            return self._highest_ratio(waiting, now)
        first = self.rematch(self._group(found))()
        assert first is not None
        return first

    def _highest_ratio(self, waiting: list[Request], now: float) -> Request:
        """The highest time waited for each token to compute, the oldest among equals."""

        def ratio(request: Request) -> tuple[float, int]:
            assert request.submitted_at is not None
            uncached = request.prompt_len - self._matched(request)
            return (now - request.submitted_at + 1.0) / uncached, -request.number

        return max(waiting, key=ratio)

    def _due(self, found: Request) -> Request | None:
        """The oldest that must not be overtaken once more, of those among whom overtaking counts."""
        if self._policy in UNBOUNDED:
            return None
        admitted = sorted(each.number for each in self._admitted if self._are_grouped(each, found))
        for request in self._group(found):
            if len(admitted) - bisect_right(admitted, request.number) >= self._limits[request.number]:
                return request
        return None

    def _group(self, of: Request) -> list[Request]:
        """Those who wait and among whom overtaking counts, oldest first."""
        return [each for each in self._waiting.values() if self._are_grouped(each, of)]

    def _are_grouped(self, one: Request, other: Request) -> bool:
        return self._policy != "fair" or one.client == other.client

    def _matched(self, request: Request | None) -> int:
        return -1 if request is None else self._cache.peek(request.prompt).matched_len
