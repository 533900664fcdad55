"""One cell of a comparison: one simulation of one workload with one pair of policies in one pool."""

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from radixcache.errors import InvalidConfig
from runtime.lab.bounds import admission_order, counted_bounds
from runtime.metrics import Spread, summarise
from runtime.result import RunResult
from runtime.simulation import Experiment, Setup, run_experiment
from runtime.workload import Workload


class WorkloadSource(Hashable, Protocol):
    """Makes workloads, also in other processes: it can be pickled, and equal ones make equal workloads."""

    def __call__(self, seed: int) -> Workload:
        """The workload of a seed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSpec:
    """What is varied.

    Attributes:
        eviction: Eviction policy.
        policy: Order of the waiting queue.
        capacity_tokens: Size of the pool.
        seed: Seed of the workload.
    """

    eviction: str
    policy: str
    capacity_tokens: int
    seed: int

    @property
    def name(self) -> str:
        """The cell in a few words."""
        return f"{self.eviction}, {self.policy}, {self.capacity_tokens:,} tokens, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMetrics:
    """What one simulation found, without its warm-up. Times are simulated seconds; None where there is none.

    Attributes:
        hit_rate: Matched / prompt tokens.
        ceiling_rate: What a cache without limit finds in the same order of admissions.
        of_ceiling: Hit rate / that.
        of_optimum: Hit rate / that of clairvoyant eviction in the same order.
        ttft_p50_s: Median TTFT.
        ttft_p99_s: 99th percentile of the TTFT.
        tpot_p99_s: 99th percentile of the TPOT.
        output_tokens_per_s: Output tokens / time from the end of the warm-up to the end of the run.
        computed_prompt_tokens: Prompt tokens computed.
        recomputed_tokens: Tokens computed again after preemptions.
        preemptions: How often a running request was thrown back.
        requests: Requests that were counted.
        not_finished: Of these, such as did not finish.
        offered_load: Work / time until the last arrival; above 1 the device cannot keep up.
    """

    hit_rate: float | None
    ceiling_rate: float | None
    of_ceiling: float | None
    of_optimum: float | None
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    tpot_p99_s: float | None
    output_tokens_per_s: float | None
    computed_prompt_tokens: int
    recomputed_tokens: int
    preemptions: int
    requests: int
    not_finished: int
    offered_load: float


def run_cell(source: WorkloadSource, setup: Setup, spec: CellSpec, warmup: float) -> CellMetrics:
    """Simulate a cell.

    Args:
        source: Makes the workload; the last one made is kept for the next cell.
        setup: How it is served, but for what the cell says.
        spec: The cell.
        warmup: Share of the requests, first arrivals first, that are served but not counted, in [0, 1).

    Raises:
        InvalidConfig: `warmup` out of range.
        RadixCacheError: See `run_experiment`.
    """
    if not 0 <= warmup < 1:
        raise InvalidConfig(f"the warm-up is a share of the requests in [0, 1), got {warmup}")
    workload = _workload(source, spec.seed)
    cell_setup = replace(
        setup,
        eviction=spec.eviction,
        capacity_tokens=spec.capacity_tokens,
        scheduler=replace(setup.scheduler, policy=spec.policy),
        baseline=False,
        bounds=False,
    )
    experiment = Experiment(workload=workload, workload_config={}, setup=cell_setup, seed=spec.seed)
    run = run_experiment(experiment).runs[0]
    counted = without_warmup(run, warmup)
    if setup.bounds:
        found = counted_bounds(
            workload,
            page_size=setup.page_size,
            capacity_tokens=spec.capacity_tokens,
            order=admission_order(run.requests),
            counted={(record.session_id, record.turn) for record in counted.requests},
        )
        counted = replace(counted, bounds=found)
    return _metrics(counted)


def without_warmup(run: RunResult, warmup: float) -> RunResult:
    """A run without the first share of its requests; its makespan counts from the first arrival left."""
    requests = run.requests[math.ceil(warmup * len(run.requests)) :]
    began_s = requests[0].arrival_s if warmup and requests else 0.0
    return replace(run, requests=requests, makespan_s=run.makespan_s - began_s)


@lru_cache(maxsize=1)
def _workload(source: WorkloadSource, seed: int) -> Workload:
    return source(seed)


def _metrics(run: RunResult) -> CellMetrics:
    summary = summarise(run)
    return CellMetrics(
        hit_rate=summary.hit_rate,
        ceiling_rate=None if run.bounds is None else run.bounds.ceiling_rate,
        of_ceiling=summary.of_ceiling,
        of_optimum=summary.of_optimum,
        ttft_p50_s=_at(summary.ttft_s, "p50"),
        ttft_p99_s=_at(summary.ttft_s, "p99"),
        tpot_p99_s=_at(summary.tpot_s, "p99"),
        output_tokens_per_s=summary.output_tokens_per_s,
        computed_prompt_tokens=summary.computed_prompt_tokens,
        recomputed_tokens=summary.recomputed_tokens,
        preemptions=summary.preemptions,
        requests=summary.submitted,
        not_finished=summary.submitted - summary.finished,
        offered_load=run.offered_load,
    )


def _at(values: Spread | None, name: str) -> float | None:
    return None if values is None else float(getattr(values, name))
