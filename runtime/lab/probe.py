"""One simulation of a plan: does a pool keep the latency limits at a rate?"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from radixcache.errors import InvalidConfig
from runtime.metrics import goodput, percentile, summarise, tpot_s, ttft_s
from runtime.result import RequestRecord, RunResult
from runtime.simulation import ClosedLoop, Experiment, OpenLoop, Pace, run_experiment
from runtime.workload import Workload

_STEADY: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Latencies that have to hold.

    Attributes:
        ttft_s: Longest time to first token, > 0. Unit: simulated seconds.
        tpot_s: Longest time per output token, > 0. Unit: simulated seconds.
        percentile: Of the requests, so many percent have to keep each of them, in [1, 100].

    Raises:
        InvalidConfig: A value out of range.
    """

    ttft_s: float = 1.0
    tpot_s: float = 0.05
    percentile: int = 99

    def __post_init__(self) -> None:
        for name in ("ttft_s", "tpot_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InvalidConfig(f"the limit {name} is a finite number > 0, got {value}")
        if not 1 <= self.percentile <= 100:
            raise InvalidConfig(f"the percentile lies in [1, 100], got {self.percentile}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What one simulation said.

    Attributes:
        number: Order of simulation in the plan, from 1.
        capacity_tokens: Size of the pool.
        rate: How many times as densely sessions start, or how many users there are.
        sessions_per_s: Sessions that start a simulated second; None with users, or where all start at once.
        requests_per_s: Requests that these bring in the long run; None likewise.
        arrived_per_s: Requests that arrived a simulated second, in the second half of the time in which
            sessions started: neither at the slow beginning nor at the slow end. None if that took no time.
        goodput_per_s: Of these, such as kept both limits.
        ttft_s: The percentile of the TTFT; None if so many requests got no token at all.
        tpot_s: The percentile of the TPOT; None likewise.
        hit_rate: Matched / prompt tokens.
        of_ceiling: Matched tokens / those without limit of capacity; None where not reckoned.
        of_optimum: Matched tokens / those under clairvoyant eviction; None where not reckoned.
        num_unserved: Requests that did not finish; they keep no limit.
        offered_load: Work / time until the last arrival; above 1 the device cannot keep up.
        steady: Whether so many requests arrived as the rate brings in the long run, but for a quarter; with
            users, whether there were two sessions for each. Else the workload is too short for this rate.
        holds: Whether both limits hold.
    """

    number: int
    capacity_tokens: int
    rate: float
    sessions_per_s: float | None
    requests_per_s: float | None
    arrived_per_s: float | None
    goodput_per_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    hit_rate: float | None
    of_ceiling: float | None
    of_optimum: float | None
    num_unserved: int
    offered_load: float
    steady: bool
    holds: bool


def probe(
    experiment: Experiment,
    limits: Limits,
    *,
    number: int,
    capacity_tokens: int,
    pace: Pace,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Probe:
    """Simulate and judge.

    Args:
        experiment: What is served and how; its pool and pace are replaced.
        limits: What has to hold.
        number: Order of the probe.
        capacity_tokens: Size of the pool.
        pace: When sessions start.
        on_progress: Called with the number of turns that were settled since the last call.

    Raises:
        RadixCacheError: See `run_experiment`.
    """
    setup = replace(experiment.setup, capacity_tokens=capacity_tokens, pace=pace, baseline=False)
    result = run_experiment(replace(experiment, setup=setup), lambda _, settled: on_progress(settled))
    return judge(result.runs[0], experiment.workload, limits, number, capacity_tokens, pace)


def judge(
    run: RunResult, workload: Workload, limits: Limits, number: int, capacity_tokens: int, pace: Pace
) -> Probe:
    """What a finished run says about the limits. O(requests * log requests)."""
    ttft = _at(limits.percentile, (_or_never(ttft_s(record)) for record in run.requests))
    tpot = _at(limits.percentile, (_tpot(record) for record in run.requests if _counts(record)))
    summary, busy = summarise(run), _busy_half(run)
    per_s = _sessions_per_s(workload, pace)
    requests_per_s = None if per_s is None else per_s * workload.num_turns / len(workload.sessions)
    arrived_per_s = len(busy.requests) / busy.makespan_s if busy.makespan_s else None
    return Probe(
        number=number,
        capacity_tokens=capacity_tokens,
        rate=pace.rate_scale if isinstance(pace, OpenLoop) else float(pace.users),
        sessions_per_s=per_s,
        requests_per_s=requests_per_s,
        arrived_per_s=arrived_per_s,
        goodput_per_s=goodput(busy, ttft_limit_s=limits.ttft_s, tpot_limit_s=limits.tpot_s),
        ttft_s=None if ttft == math.inf else ttft,
        tpot_s=None if tpot == math.inf else tpot,
        hit_rate=summary.hit_rate,
        of_ceiling=summary.of_ceiling,
        of_optimum=summary.of_optimum,
        num_unserved=summary.submitted - summary.finished,
        offered_load=run.offered_load,
        steady=(
            len(workload.sessions) >= 2 * pace.users
            if isinstance(pace, ClosedLoop)
            else (arrived_per_s or 0.0) >= _STEADY * (requests_per_s or math.inf)
        ),
        holds=(ttft is None or ttft <= limits.ttft_s) and (tpot is None or tpot <= limits.tpot_s),
    )


def _at(percent: int, values: Iterable[float]) -> float | None:
    return percentile(sorted(values), percent)


def _or_never(value: float | None) -> float:
    return math.inf if value is None else value


def _counts(record: RequestRecord) -> bool:
    """Whether there is a TPOT to speak of: not for what finished with one output token."""
    return record.status != "finished" or record.output_tokens > 1


def _tpot(record: RequestRecord) -> float:
    return _or_never(tpot_s(record))


def _sessions_per_s(workload: Workload, pace: Pace) -> float | None:
    sessions = workload.sessions
    span_s = sessions[-1].start_s - sessions[0].start_s if len(sessions) else 0.0
    if isinstance(pace, ClosedLoop) or not span_s:
        return None
    return (len(sessions) - 1) / span_s * pace.rate_scale


def _busy_half(run: RunResult) -> RunResult:
    """The requests that arrived in the second half of the time in which sessions started, and its length."""
    began: dict[str, float] = {}
    for record in run.requests:
        began.setdefault(record.session_id, record.arrival_s)
    first_s, last_s = min(began.values(), default=0.0), max(began.values(), default=0.0)
    middle_s = (first_s + last_s) / 2
    requests = [record for record in run.requests if middle_s < record.arrival_s <= last_s]
    return replace(run, requests=requests, makespan_s=last_s - middle_s)
