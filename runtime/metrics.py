"""The metrics of a run, each with its exact definition. Times are simulated or measured, as the run's are.

Owns arithmetic on finished `RunResult`s only: it draws nothing, formats nothing, and knows
neither scheduler nor cache. A metric of nothing is None, never 0 or NaN.

Definitions, for the requests of one run:

* TTFT: first output token minus arrival, queueing included; every request that got a token.
* TPOT: (last token minus first token) / (output tokens - 1); finished requests. Those with one
  output token or none are left out and counted.
* E2E: last token minus arrival; finished requests.
* Queue delay: first schedule minus arrival; every request that was scheduled. Waiting again
  after a preemption is not part of it.
* Hit rate: matched prompt tokens / prompt tokens, summed over first admissions.
* Hit / ceiling, hit / optimum: matched prompt tokens / what a cache without limit, and what clairvoyant
  eviction at this capacity, finds when the same requests are served one after the other in the order of
  their first admissions.
* Throughput: tokens / makespan. "Output" counts every generated token, also those of requests
  that did not finish; "total" adds the prompts of the requests that got a first token.
* Percentile: nearest rank. The q-th percentile of n values is the smallest value that at least
  q % of them do not exceed, that is number ceil(q n / 100) in order. It is always one of them.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.result import RequestRecord, RunResult, TimelineSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a set of values is spread, all in the unit of the values (seconds here).

    Attributes:
        count: How many values, >= 1.
        mean: Arithmetic mean.
        p50: Median, by nearest rank.
        p90: 90th percentile, by nearest rank.
        p99: 99th percentile, by nearest rank.
        largest: Largest value.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The metrics of one run. See the module for their definitions.

    Attributes:
        label: Label of the run.
        submitted: Requests that arrived; the next five add up to it.
        finished: Requests that got all their output.
        refused: Requests that could never fit.
        failed: Requests that ended with an error.
        aborted: Requests that were called off.
        unfinished: Requests still waiting or running at the end.
        admitted: Requests that were scheduled at least once.
        prompt_tokens: Prompt tokens of admitted requests.
        matched_tokens: Of these, found in the cache.
        copied_tokens: Of these, copied out of partly matching pages.
        computed_prompt_tokens: Prompt tokens computed for the first time.
        recomputed_tokens: Tokens computed again after preemptions, in no other sum.
        output_tokens: Tokens generated.
        miss: Prompt tokens not found, by reason, most tokens first.
        hit_rate: matched / prompt tokens; None without prompt tokens.
        of_ceiling: matched tokens / those that a cache without limit would have found; None where that was
            not reckoned, or nothing could be found.
        of_optimum: matched tokens / those that clairvoyant eviction would have found; None likewise.
        ttft_s: Time to first token; None if no request got one.
        tpot_s: Time per output token; None if no request has one.
        tpot_left_out: Finished requests with fewer than two output tokens.
        e2e_s: Arrival to last token; None if none finished.
        queue_delay_s: Arrival to first schedule; None if none was scheduled.
        makespan_s: Seconds from start to end.
        output_tokens_per_s: Output tokens / makespan; None if that is 0.
        total_tokens_per_s: Prompt and output tokens / makespan; None if that is 0.
        finished_per_s: Finished requests / makespan; None if that is 0.
        evictions: Evicted pages, as counted by the run; None if it did not count.
        preemptions: How often a running request was thrown back.
        preempted_requests: Requests to which that happened.
        max_waiting: Most requests waiting in any sample; None without samples.
        mean_waiting: Mean over time of requests waiting; None if no time passed.
        max_running: Most requests running in any sample; None without samples.
        offered_load: Arriving work / capacity of the device.
        backlog_at_last_arrival: Requests waiting or running when the last one arrived.
    """

    label: str
    submitted: int
    finished: int
    refused: int
    failed: int
    aborted: int
    unfinished: int
    admitted: int
    prompt_tokens: int
    matched_tokens: int
    copied_tokens: int
    computed_prompt_tokens: int
    recomputed_tokens: int
    output_tokens: int
    miss: dict[str, int]
    hit_rate: float | None
    of_ceiling: float | None
    of_optimum: float | None
    ttft_s: Spread | None
    tpot_s: Spread | None
    tpot_left_out: int
    e2e_s: Spread | None
    queue_delay_s: Spread | None
    makespan_s: float
    output_tokens_per_s: float | None
    total_tokens_per_s: float | None
    finished_per_s: float | None
    evictions: int | None
    preemptions: int
    preempted_requests: int
    max_waiting: int | None
    mean_waiting: float | None
    max_running: int | None
    offered_load: float
    backlog_at_last_arrival: int


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Nearest-rank percentile of values in ascending order.

    Args:
        ordered: The values, ascending.
        percent: A whole number in [1, 100].

    Returns:
        One of the values; None if there are none.

    Raises:
        ValueError: `percent` lies outside its range.

    Example:
        >>> percentile([10.0, 20.0, 30.0, 40.0], 50), percentile([10.0, 20.0, 30.0, 40.0], 51)
        (20.0, 30.0)
    """
    if not 1 <= percent <= 100:
        raise ValueError(f"percentile {percent} lies outside [1, 100]")
    return _nearest_rank(ordered, percent) if ordered else None


def spread(values: Iterable[float]) -> Spread | None:
    """Mean, percentiles and largest of some values; None if there are none.

    Complexity:
        O(n log n). The order of the values does not matter, not even in the last bit.
    """
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(
        count=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        p50=_nearest_rank(ordered, 50),
        p90=_nearest_rank(ordered, 90),
        p99=_nearest_rank(ordered, 99),
        largest=ordered[-1],
    )


def ttft_s(record: RequestRecord) -> float | None:
    """Seconds from arrival to the first output token; None without one."""
    return None if record.first_token_s is None else record.first_token_s - record.arrival_s


def tpot_s(record: RequestRecord) -> float | None:
    """Seconds per output token after the first; None unless finished with two or more."""
    if record.output_tokens < 2 or record.first_token_s is None:
        return None
    finished_s = _finished_s(record)
    if finished_s is None:
        return None
    return (finished_s - record.first_token_s) / (record.output_tokens - 1)


def e2e_s(record: RequestRecord) -> float | None:
    """Seconds from arrival to the last output token; None unless finished."""
    finished_s = _finished_s(record)
    return None if finished_s is None else finished_s - record.arrival_s


def queue_delay_s(record: RequestRecord) -> float | None:
    """Seconds from arrival to the first schedule; None if never scheduled."""
    if record.first_scheduled_s is None:
        return None
    return record.first_scheduled_s - record.arrival_s


def summarise(run: RunResult) -> RunSummary:
    """All metrics of one run.

    Complexity:
        O(n log n) for n requests.
    """
    requests = run.requests
    statuses = [record.status for record in requests]
    admitted = [record for record in requests if record.first_scheduled_s is not None]
    served = [record for record in requests if record.first_token_s is not None]
    output_tokens = sum(record.output_tokens for record in requests)
    prompt_tokens = sum(record.prompt_tokens for record in admitted)
    matched_tokens = sum(record.matched_tokens for record in admitted)
    waiting = [sample.waiting for sample in run.timeline]
    return RunSummary(
        label=run.label,
        submitted=len(requests),
        finished=statuses.count("finished"),
        refused=statuses.count("refused"),
        failed=statuses.count("failed"),
        aborted=statuses.count("aborted"),
        unfinished=statuses.count("unfinished"),
        admitted=len(admitted),
        prompt_tokens=prompt_tokens,
        matched_tokens=matched_tokens,
        copied_tokens=sum(record.copied_tokens for record in admitted),
        computed_prompt_tokens=sum(record.computed_prompt_tokens for record in requests),
        recomputed_tokens=sum(record.recomputed_tokens for record in requests),
        output_tokens=output_tokens,
        miss=_miss_tokens(admitted),
        hit_rate=_ratio(matched_tokens, prompt_tokens),
        of_ceiling=None if run.bounds is None else run.bounds.of_ceiling(matched_tokens),
        of_optimum=None if run.bounds is None else run.bounds.of_optimum(matched_tokens),
        ttft_s=spread(_known(map(ttft_s, requests))),
        tpot_s=spread(_known(map(tpot_s, requests))),
        tpot_left_out=sum(r.status == "finished" and r.output_tokens < 2 for r in requests),
        e2e_s=spread(_known(map(e2e_s, requests))),
        queue_delay_s=spread(_known(map(queue_delay_s, requests))),
        makespan_s=run.makespan_s,
        output_tokens_per_s=_ratio(output_tokens, run.makespan_s),
        total_tokens_per_s=_ratio(
            output_tokens + sum(record.prompt_tokens for record in served), run.makespan_s
        ),
        finished_per_s=_ratio(statuses.count("finished"), run.makespan_s),
        evictions=run.counters.get("evictions"),
        preemptions=sum(record.preemptions for record in requests),
        preempted_requests=sum(record.preemptions > 0 for record in requests),
        max_waiting=max(waiting, default=None),
        mean_waiting=_mean_waiting(run.timeline),
        max_running=max((sample.running for sample in run.timeline), default=None),
        offered_load=run.offered_load,
        backlog_at_last_arrival=run.backlog_at_last_arrival,
    )


def summarise_kinds(run: RunResult) -> dict[str, RunSummary]:
    """The same metrics for each kind of turn, in order of first arrival.

    What belongs to the run and not to a request (makespan, evictions, queue, load) is that of the
    whole run, so throughputs of the kinds add up to the throughput of the run.
    """
    kinds: dict[str, list[RequestRecord]] = {}
    for record in run.requests:
        kinds.setdefault(record.kind, []).append(record)
    return {
        kind: summarise(
            RunResult(
                label=run.label,
                requests=records,
                timeline=run.timeline,
                counters=run.counters,
                makespan_s=run.makespan_s,
                last_arrival_s=run.last_arrival_s,
                offered_load=run.offered_load,
                backlog_at_last_arrival=run.backlog_at_last_arrival,
                tree=[],
            )
        )
        for kind, records in kinds.items()
    }


def goodput(run: RunResult, *, ttft_limit_s: float, tpot_limit_s: float) -> float | None:
    """Finished requests a second that kept both limits; None if no time passed.

    A request without a TPOT (one output token or none) has to keep the TTFT limit only.
    """
    good = 0
    for record in run.requests:
        ttft, tpot = ttft_s(record), tpot_s(record)
        on_time = ttft is not None and ttft <= ttft_limit_s
        good += record.status == "finished" and on_time and (tpot is None or tpot <= tpot_limit_s)
    return _ratio(good, run.makespan_s)


def _nearest_rank(ordered: Sequence[float], percent: int) -> float:
    rank = -(-percent * len(ordered) // 100)  # ceil in whole numbers, so that no rounding decides
    return ordered[rank - 1]


def _finished_s(record: RequestRecord) -> float | None:
    return record.finished_s if record.status == "finished" else None


def _known(values: Iterable[float | None]) -> Iterable[float]:
    return (value for value in values if value is not None)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _miss_tokens(records: Iterable[RequestRecord]) -> dict[str, int]:
    tokens: dict[str, int] = {}
    for record in records:
        for reason, count in record.miss.items():
            tokens[reason] = tokens.get(reason, 0) + count
    return dict(sorted(tokens.items(), key=lambda item: (-item[1], item[0])))


def _mean_waiting(timeline: Sequence[TimelineSample]) -> float | None:
    """Mean over time, each sample holding until the next one."""
    steps = itertools.pairwise(timeline)
    area = math.fsum(now.waiting * (then.time_s - now.time_s) for now, then in steps)
    return _ratio(area, timeline[-1].time_s - timeline[0].time_s) if timeline else None
