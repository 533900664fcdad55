"""Many requests that wait for one prefix which nobody has yet, while a leader computes it in chunks."""

import numpy as np

from bench.errors import expect
from bench.harness.meter import Meter
from bench.scenarios.queue_oracles import QueueOracle
from bench.scenarios.timed_cache import TimedCache
from bench.workloads.material import VOCABULARY, Ids, random_ids
from radixcache import CacheConfig, Sequence, Tokens, check
from scheduler import Request, SchedulerConfig
from scheduler.line import WaitingLine

TAIL_PAGES = 2
CHUNK, PARTING, EVICTION = "a chunk inside the prefix", "the chunk in which it ends", "evicting it all"
_OTHER = "before and after"


class ColdPrefix:
    """Requests that share a prefix and part behind it, or all along it.

    A leader, which runs already, computes the prefix and a tail of its own; then everything is evicted, and
    it starts again. Only queue work is timed: following the leader, and what the cache's changes cause.

    Args:
        policy: Name of the order.
        num_waiting: Requests that wait.
        prefix_pages: Pages of the prefix.
        chunk_pages: Pages of a chunk.
        page_size: Tokens of a page.
        seed: For the token ids.
        spread: Whether they part all along the prefix, evenly, instead of at its end.

    Attributes:
        meter: Times by kind: `CHUNK`, `PARTING`, `EVICTION`.
    """

    def __init__(
        self,
        policy: str,
        num_waiting: int,
        *,
        prefix_pages: int,
        chunk_pages: int,
        page_size: int,
        seed: int,
        spread: bool = False,
    ) -> None:
        self.meter = Meter()
        self.num_waiting = num_waiting
        self._prefix = random_ids(seed, prefix_pages * page_size)
        self._prefix_pages, self._chunk_pages = prefix_pages, chunk_pages
        num_pages = prefix_pages + chunk_pages + TAIL_PAGES
        self.cache = TimedCache(CacheConfig(num_pages=num_pages, page_size=page_size), self.meter)
        config = SchedulerConfig(policy=policy)
        self.line = WaitingLine(self.cache, config)
        self.oracle = QueueOracle(policy, self.cache, config)
        for number in range(num_waiting):
            self._join(number, prefix_pages - number % prefix_pages if spread else prefix_pages)

    def _join(self, number: int, num_shared: int) -> None:
        request = Request(f"{number}", Tokens(self._prompt(number, num_shared)), 1)
        request.number, request.submitted_at = number, 0.0
        self.line.join(request)
        self.oracle.joined(request)

    def _prompt(self, number: int, num_shared: int) -> Ids:
        page_size = self.cache.config.page_size
        own = np.full(TAIL_PAGES * page_size + 1, VOCABULARY + number, dtype=np.int32)
        return np.concatenate([self._prefix[: num_shared * page_size], own])

    def lead(self, stop_after: int | None = None) -> None:
        """Let a leader compute everything, then evict it.

        Args:
            stop_after: End the leader after so many chunks, and see who is next.

        Raises:
            WrongResult: Somebody else should be next, or not everything was evicted.
        """
        meter, line = self.meter, self.line
        leader = Request("leader", Tokens(self._prompt(-1, self._prefix_pages)), 1)
        leader.sequence = seq = self.cache.open(leader.prompt)
        line.lead(leader)
        num_pages = self._prefix_pages + TAIL_PAGES
        for chunk, start in enumerate(range(0, num_pages, self._chunk_pages)):
            if chunk == stop_after:
                break
            self._publish(seq, min(self._chunk_pages, num_pages - start))
            meter.time(line.lead, leader)
            meter.lap(CHUNK if start + self._chunk_pages < self._prefix_pages else PARTING)
        seq.close()
        line.stop_leading(leader)
        if stop_after is not None:
            self.oracle.check(line.candidate(0.0, 0, 0), 0.0)
        meter.lap(_OTHER)
        self.cache.evict(self.cache.pages.evictable)
        meter.lap(EVICTION)
        expect("pages cached after eviction", self.cache.pages.evictable, 0)

    def _publish(self, seq: Sequence, num_pages: int) -> None:
        num_tokens = num_pages * self.cache.config.page_size
        seq.reserve(num_tokens)
        seq.advance(num_tokens)
        seq.publish()

    def verify(self) -> None:
        """Wherever the leader stops, the next request is the one that the oracle names.

        Raises:
            WrongResult: Not so.
        """
        num_chunks = -(-(self._prefix_pages + TAIL_PAGES) // self._chunk_pages)
        for stop_after in (0, 1, num_chunks // 2, num_chunks):
            self.lead(stop_after)
        expect("waiting requests", len(self.line), self.num_waiting)
        check(self.cache)
        self.meter.clear()
