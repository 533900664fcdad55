"""What a run at one rate came to: latencies, goodput and hits of the requests that arrived in a window."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.errors import WrongResult, expect
from radixcache import CacheConfig
from runtime.lab import admission_order, counted_bounds
from runtime.lab.probe import Limits
from runtime.metrics import Spread, goodput, summarise
from runtime.result import Bounds, RunResult
from runtime.workload import Workload

SHARE = 0.99
"""Of the requests, so many have to keep both limits where a rate is within the capacity."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a run's time, in seconds: what arrives in it is counted."""

    from_s: float
    until_s: float

    @property
    def length_s(self) -> float:
        """How long it is."""
        return self.until_s - self.from_s

    def holds(self, time_s: float | None) -> bool:
        """Whether a moment lies in it; no moment does not."""
        return time_s is not None and self.from_s <= time_s <= self.until_s

    def arrivals(self, run: RunResult) -> RunResult:
        """The run with the requests that arrived in the window, as if it had lasted so long."""
        requests = [record for record in run.requests if self.holds(record.arrival_s)]
        return replace(run, requests=requests, makespan_s=self.length_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """A rate, as requests of one window saw it.

    Attributes:
        arrived_per_s: Requests that arrived a second.
        finished_per_s: Requests that ended a second, whenever they had arrived.
        goodput_per_s: Of those that arrived, such as kept both limits.
        ttft_s: Time to first token.
        tpot_s: Time per output token.
        hit_rate: Matched / prompt tokens.
        ceiling_rate: What a cache without limit finds in the same order; `None` without a cache.
        optimum_rate: What clairvoyant eviction finds at the capacity; `None` without a cache.
    """

    arrived_per_s: float
    finished_per_s: float
    goodput_per_s: float
    ttft_s: Spread
    tpot_s: Spread
    hit_rate: float
    ceiling_rate: float | None = None
    optimum_rate: float | None = None

    @property
    def share(self) -> float:
        """Of the requests that arrived, those that kept both limits."""
        return self.goodput_per_s / self.arrived_per_s


def possible(run: RunResult, workload: Workload, window: Window, pool: CacheConfig) -> Bounds:
    """What a cache could have found for the requests of a window, in the run's order of admissions."""
    return counted_bounds(
        workload,
        page_size=pool.page_size,
        capacity_tokens=pool.num_pages * pool.page_size,
        order=admission_order(run.requests),
        counted={(record.session_id, record.turn) for record in window.arrivals(run).requests},
    )


def load_point(run: RunResult, window: Window, limits: Limits, bounds: Bounds | None = None) -> LoadPoint:
    """What the requests of a window saw. `bounds`: what was possible for them.

    Raises:
        WrongResult: No request arrived in the window, or none has a time per output token.
    """
    counted = window.arrivals(run)
    summary = summarise(counted)
    good = goodput(counted, ttft_limit_s=limits.ttft_s, tpot_limit_s=limits.tpot_s)
    if good is None or summary.ttft_s is None or summary.tpot_s is None or summary.hit_rate is None:
        raise WrongResult(f"{len(counted.requests)} requests of {window} say nothing about latencies")
    num_finished = sum(window.holds(record.finished_s) for record in run.requests)
    return LoadPoint(
        arrived_per_s=len(counted.requests) / window.length_s,
        finished_per_s=num_finished / window.length_s,
        goodput_per_s=good,
        ttft_s=summary.ttft_s,
        tpot_s=summary.tpot_s,
        hit_rate=summary.hit_rate,
        ceiling_rate=None if bounds is None else bounds.ceiling_rate,
        optimum_rate=None if bounds is None else bounds.optimum_rate,
    )


def capacity(shares: Mapping[float, float], least: float = SHARE) -> float:
    """The largest rate that keeps the limits, as all lower ones do.

    Args:
        shares: Share of the requests that kept both limits, by rate.
        least: What that share has to be.

    Returns:
        One of the rates; 0 if not even the lowest keeps them.
    """
    largest = 0.0
    for rate in sorted(shares):
        if shares[rate] < least:
            break
        largest = rate
    return largest


def require_served(what: str, run: RunResult, num_requests: int) -> None:
    """Raise `WrongResult` unless every request was finished and its prompt adds up."""
    expect(f"{what}, finished", [each.status for each in run.requests].count("finished"), num_requests)
    for each in run.requests:
        known = each.matched_tokens + each.copied_tokens + sum(each.miss.values())
        expect(f"{what}, prompt tokens of {each.request_id}", known, each.prompt_tokens)


def require_same_work(what: str, runs: Mapping[str, RunResult]) -> None:
    """Raise `WrongResult` unless all runs had the same prompts to read and answers to write."""
    work = {
        label: {each.request_id: (each.prompt_tokens, each.output_tokens) for each in run.requests}
        for label, run in runs.items()
    }
    first, *others = work
    for label in others:
        differing = sorted(
            name for name in work[first] | work[label] if work[first].get(name) != work[label].get(name)
        )
        expect(f"{what}, requests with other tokens under {label} than under {first}", differing, [])


def require_no_hits(what: str, run: RunResult) -> None:
    """Raise `WrongResult` if a run without a cache found something."""
    expect(f"{what}, matched tokens", sum(each.matched_tokens for each in run.requests), 0)
