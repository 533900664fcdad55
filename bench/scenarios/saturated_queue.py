"""A queue that stays as long as it is while requests are taken from it, one after the other."""

from collections.abc import Iterator

from bench.errors import expect
from bench.harness.meter import Meter
from bench.scenarios.queue_entries import count_entries
from bench.scenarios.queue_oracles import QueueOracle
from bench.scenarios.timed_cache import TimedCache
from bench.workloads.prompt_stream import StreamedRequest
from bench.workloads.trace import FreshOutputs
from radixcache import CacheConfig, Tokens, check
from scheduler import Request, SchedulerConfig
from scheduler.line import WaitingLine

NUM_CLIENTS = 16


class SaturatedQueue:
    """The waiting line of a scheduler over a full cache.

    Only queue work is timed: by `dispatches` choosing, admitting and following a leader, with what the
    changes of the cache cause in the queue; by `arrivals` joining.

    Args:
        policy: Name of the order.
        num_waiting: Requests that wait.
        requests: What arrives.
        num_pages: Pages of the pool.
        page_size: Tokens of a page.
        max_overtakes: See `SchedulerConfig`.
    """

    def __init__(
        self,
        policy: str,
        num_waiting: int,
        requests: Iterator[StreamedRequest],
        *,
        num_pages: int,
        page_size: int,
        max_overtakes: int | None = None,
    ) -> None:
        self.policy = policy
        self.num_waiting = num_waiting
        self.dispatches, self.arrivals = Meter(), Meter()
        config = SchedulerConfig(policy=policy, max_overtakes=max_overtakes)
        self._chunk_tokens = config.chunk_tokens
        self.cache = TimedCache(CacheConfig(num_pages=num_pages, page_size=page_size), self.dispatches)
        self.line = WaitingLine(self.cache, config)
        self.oracle = QueueOracle(policy, self.cache, config)
        self._requests = requests
        self._outputs = FreshOutputs()
        self._num_joined = self._now = 0
        self._output_lens: dict[int, int] = {}
        for _ in range(num_waiting):
            self._join()

    def _join(self) -> None:
        prompt, output_len = next(self._requests)
        number = self._num_joined
        self._num_joined += 1
        request = Request(f"{number}", Tokens(prompt), output_len, client=f"client {number % NUM_CLIENTS}")
        request.number, request.submitted_at = number, float(self._now)
        self._output_lens[number] = output_len
        self.arrivals.time(self.line.join, request)
        self.arrivals.lap()
        self.oracle.joined(request)

    def head(self) -> Request | None:
        """Who is next."""
        return self.line.candidate(float(self._now), 0, 0)

    def dispatch(self) -> None:
        """Take the next request, serve it to its end in chunks, and let another one join."""
        meter, line = self.dispatches, self.line
        request = meter.time(self.head)
        assert request is not None
        request.sequence = self.cache.open(request.prompt)
        meter.time(line.admit, request, request.prompt_len - request.sequence.matched_len)
        self.oracle.admitted(request)
        self._serve(request)
        meter.lap()
        self._now += 1
        self._join()

    def _serve(self, request: Request) -> None:
        meter, line, seq = self.dispatches, self.line, request.sequence
        assert seq is not None
        meter.time(line.lead, request)
        while seq.computed_len < request.prompt_len:
            extend_len = min(self._chunk_tokens, request.prompt_len - seq.computed_len)
            seq.reserve(extend_len)
            seq.advance(extend_len)
            seq.publish()
            meter.time(line.lead, request)
        output = Tokens(self._outputs.take(self._output_lens.pop(request.number)))
        seq.reserve(len(output))
        seq.append(output)
        seq.advance(len(output))
        meter.time(line.generated, request, len(output))
        seq.close()
        meter.time(line.stop_leading, request)

    def warm_up(self, times: int) -> None:
        """Dispatch so often, and on until pages are evicted, then forget all times."""
        while times > 0 or not self.cache.stats.evictions:
            times -= 1
            self.dispatch()
        self.dispatches.clear()
        self.arrivals.clear()

    def verify(self) -> None:
        """The queue names whom the oracle names, and the cache is sound.

        Raises:
            WrongResult: Not so.
        """
        expect("waiting requests", len(self.line), self.num_waiting)
        self.oracle.check(self.head(), float(self._now))

    def entries(self) -> dict[str, int]:
        """Bookkeeping by container."""
        return count_entries(self.line)

    def drain(self) -> None:
        """Everybody leaves; nothing may be left behind.

        Raises:
            WrongResult: Bookkeeping stays behind, or the cache is unsound.
        """
        for request in self.oracle.waiting():
            self.line.leave(request)
        expect("waiting requests at the end", len(self.line), 0)
        self.dispatches.clear()
        check(self.cache)
