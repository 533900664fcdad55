"""What a run leaves behind: a record for each request, and a timeline."""

from radixcache import PrefixCache
from runtime.clock import seconds
from runtime.result import RequestRecord, RequestStatus, TimelineSample
from runtime.simulation.arrivals import Arrival
from scheduler import Request, RequestState, Scheduler

_MAX_SAMPLES = 4096
_STATUS: dict[RequestState, RequestStatus] = {
    RequestState.NEW: "refused",
    RequestState.FINISHED: "finished",
    RequestState.ABORTED: "aborted",
    RequestState.FAILED: "failed",
}


def _seconds(time_ps: float | None) -> float | None:
    return None if time_ps is None else seconds(int(time_ps))


def record_of(arrival: Arrival, request: Request, error: Exception | None = None) -> RequestRecord:
    """The record of a request that has ended, or was refused with `error`."""
    error = error or request.error
    return RequestRecord(
        request_id=request.request_id,
        session_id=arrival.session.session_id,
        turn=arrival.turn_number,
        kind=arrival.turn.kind,
        arrival_s=seconds(arrival.time_ps),
        first_scheduled_s=_seconds(request.first_scheduled_at),
        first_token_s=_seconds(request.first_token_at),
        finished_s=_seconds(request.finished_at),
        prompt_tokens=len(request.prompt),
        matched_tokens=request.matched_len,
        copied_tokens=request.copied_len,
        computed_prompt_tokens=request.prefill_tokens,
        recomputed_tokens=request.recomputed_tokens,
        output_tokens=len(request.output),
        miss=dict(request.missed_tokens),
        preemptions=request.num_preemptions,
        status=_STATUS.get(request.state, "unfinished"),
        error=None if error is None else str(error),
        client=request.client,
    )


class Timeline:
    """Samples at equal distances; when they become too many, every second goes and the distance doubles.

    Args:
        cache: Whose pages.
        scheduler: Whose queue.
        every_ps: First distance between samples. Unit: picoseconds.

    Attributes:
        next_ps: When the next sample is due.
    """

    def __init__(self, cache: PrefixCache, scheduler: Scheduler, every_ps: int) -> None:
        self._cache = cache
        self._scheduler = scheduler
        self._every_ps = every_ps
        self.next_ps = 0
        self._samples: list[TimelineSample] = []

    def tick(self, now_ps: int, output_tokens: int) -> None:
        """Sample, if it is time. O(1) amortised."""
        if now_ps < self.next_ps:
            return
        self.sample(now_ps, output_tokens)
        if len(self._samples) > _MAX_SAMPLES:
            self._samples = self._samples[::2]
            self._every_ps *= 2
        self.next_ps = (now_ps // self._every_ps + 1) * self._every_ps

    def sample(self, now_ps: int, output_tokens: int) -> None:
        """Sample now."""
        pages, stats = self._cache.pages, self._cache.stats
        self._samples.append(
            TimelineSample(
                time_s=seconds(now_ps),
                free_pages=pages.free,
                private_pages=pages.private,
                evictable_pages=pages.evictable,
                locked_pages=pages.locked,
                waiting=self._scheduler.num_waiting,
                running=self._scheduler.num_running,
                matched_tokens=stats.matched_tokens,
                prompt_tokens=stats.prompt_tokens,
                output_tokens=output_tokens,
            )
        )

    def samples(self) -> list[TimelineSample]:
        """All that were kept, by time."""
        return self._samples
