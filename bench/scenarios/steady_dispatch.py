"""A scheduler that serves one request a step, while as many wait as before."""

from collections import deque

import numpy as np

from bench.errors import expect
from bench.scenarios.life import serve
from bench.workloads.material import VOCABULARY, random_ids
from radixcache import CacheConfig, PrefixCache, Tokens, check
from scheduler import Request, Scheduler, SchedulerConfig

NUM_PREFIXES = 8
PREFIX_PAGES = 8
TAIL_PAGES = 4
TAILS_CACHED = 2 * NUM_PREFIXES  # so that no prefix is the least recent
OUTPUT = Tokens([1])


class SteadyDispatch:
    """Requests behind cached prefixes; each prompt comes twice, and one runs at a time, to its end.

    The first of two publishes its tail, which evicts an older one. The second, which waits behind others,
    then has the longest match.

    Args:
        policy: Name of the order.
        num_waiting: Requests that wait, more than the prefixes.
        page_size: Tokens of a page.
        seed: For the token ids.
    """

    def __init__(self, policy: str, num_waiting: int, *, page_size: int, seed: int) -> None:
        self.num_waiting = num_waiting
        self._tail_len = TAIL_PAGES * page_size + 1
        self._prefixes = random_ids(seed, NUM_PREFIXES * PREFIX_PAGES * page_size).reshape(NUM_PREFIXES, -1)
        num_pages = NUM_PREFIXES * PREFIX_PAGES + TAILS_CACHED * (TAIL_PAGES + 1)
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
        self.scheduler = Scheduler(self.cache, SchedulerConfig(policy=policy, max_running=1))
        for prefix in self._prefixes:
            serve(self.cache, Tokens(prefix))
        self._arrivals: deque[Request] = deque()
        self._waiting: dict[str, Request] = {}
        self._num_made = 0
        self._now = 0.0
        self.prepare(num_waiting)
        for _ in range(num_waiting):
            self._submit()

    def prepare(self, times: int) -> None:
        """Make the requests that arrive in so many dispatches."""
        for number in range(self._num_made, self._num_made + times):
            round_of_two, which = divmod(number, 2 * NUM_PREFIXES)
            prefix = which % NUM_PREFIXES
            tail = VOCABULARY + round_of_two * NUM_PREFIXES + prefix
            prompt = np.append(self._prefixes[prefix], np.full(self._tail_len, tail, dtype=np.int32))
            self._arrivals.append(Request(f"{number}", Tokens(prompt), 1))
        self._num_made += times

    def _submit(self) -> None:
        request = self._arrivals.popleft()
        self._waiting[request.request_id] = request
        self.scheduler.submit(request, self._now)

    def dispatch(self) -> Request:
        """Plan a step, take in what it brought, and let another request arrive. Returns who was served."""
        plan = self.scheduler.schedule(self._now)
        (row,) = plan.rows
        name = row.request.request_id
        self._now += 1.0
        self.scheduler.commit(plan, {name: OUTPUT}, self._now)
        del self._waiting[name]
        self._submit()
        return row.request

    def verify(self) -> None:
        """Four times, who was served is the oldest of those with the longest match, and pages were evicted.

        Raises:
            WrongResult: Not so.
        """
        self.prepare(4)
        evicted = self.cache.stats.evictions
        matches = set()
        for _ in range(4):
            first = max(self._waiting.values(), key=lambda request: (self._matched(request), -request.number))
            matches.add(self._matched(first))
            expect("next", self.dispatch().number, first.number)
        tail_len = self._tail_len - 1
        prefix_len = self._prefixes.shape[1]
        expect("lengths of matches", matches, {prefix_len, prefix_len + tail_len})
        expect("pages are evicted", self.cache.stats.evictions > evicted, wanted=True)
        expect("waiting requests", self.scheduler.num_waiting, self.num_waiting)
        expect("running requests", self.scheduler.num_running, 0)
        check(self.cache)

    def _matched(self, request: Request) -> int:
        return self.cache.peek(request.prompt).matched_len
