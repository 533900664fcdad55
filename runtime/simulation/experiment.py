"""An experiment: one workload, with the cache and without, and what a reader needs beside the numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from radixcache import CacheConfig, NullPrefixCache, PrefixCache
from radixcache.errors import InvalidConfig
from runtime.cost import CostModel
from runtime.executor import CostModelExecutor
from runtime.lab.bounds import admission_order, run_bounds
from runtime.result import BASELINE_LABEL, CACHE_LABEL, RunResult, SimulationResult
from runtime.simulation.arrivals import OpenLoop, Pace
from runtime.simulation.description import (
    described_cache,
    described_pace,
    described_scheduler,
    described_workload,
    versions,
    warnings_of,
)
from runtime.simulation.simulator import Simulation
from runtime.workload import Workload
from scheduler import Scheduler, SchedulerConfig

CACHES: Final[Mapping[str, type[PrefixCache]]] = {
    BASELINE_LABEL: NullPrefixCache,
    CACHE_LABEL: PrefixCache,
}
"""The cache of each run, by its label."""

OnProgress = Callable[[str, int], None]
"""Called with the label of a run and the number of turns that were settled since the last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a workload is served.

    Attributes:
        cost: Model and GPU, and what a step costs on them.
        page_size: Tokens a page holds.
        capacity_tokens: Tokens of KV in the pool; `None`: what fits into the GPU beside the weights.
        memory_fraction: Share of the GPU's memory that may be used, for that.
        eviction: Eviction policy.
        partial_reuse: Whether starts of pages are copied.
        scheduler: Settings of the scheduler.
        pace: When sessions start.
        baseline: Whether the run without a cache is made too.
        bounds: Whether each run with a cache is told what was possible in its order of admissions.
    """

    cost: CostModel
    page_size: int = 16
    capacity_tokens: int | None = None
    memory_fraction: float = 0.9
    eviction: str = "lru"
    partial_reuse: bool = False
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    pace: Pace = field(default_factory=OpenLoop)
    baseline: bool = True
    bounds: bool = True

    def cache_config(self) -> CacheConfig:
        """Settings of the cache.

        Raises:
            InvalidConfig: The capacity holds no page, or a setting is out of range.
            ModelDoesNotFit: No capacity was given, and the GPU has no room beside the weights.
        """
        _require_page_size(self.page_size)
        capacity = self.capacity_tokens
        if capacity is None:
            capacity = self.cost.pool_tokens(
                memory_fraction=self.memory_fraction,
                page_size=self.page_size,
                chunk_tokens=self.scheduler.token_budget,
            )
        return pool_of(
            capacity,
            page_size=self.page_size,
            eviction=self.eviction,
            partial_reuse=self.partial_reuse,
        )


def pool_of(capacity_tokens: int, *, page_size: int, eviction: str, partial_reuse: bool) -> CacheConfig:
    """Settings of a cache with as many whole pages as a capacity holds.

    Raises:
        InvalidConfig: It holds none, or a setting is out of range.
    """
    _require_page_size(page_size)
    if capacity_tokens < page_size:
        raise InvalidConfig(f"a capacity of {capacity_tokens} tokens holds no page of {page_size} tokens")
    return CacheConfig(
        num_pages=capacity_tokens // page_size,
        page_size=page_size,
        eviction=eviction,
        partial_reuse=partial_reuse,
    )


def _require_page_size(page_size: int) -> None:
    if page_size < 1:
        raise InvalidConfig(f"page_size is an integer >= 1, got {page_size}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A workload and how it is served.

    Attributes:
        workload: What arrives.
        workload_config: Where it comes from, as JSON values for the report.
        setup: How it is served.
        seed: The seed it was made with.
    """

    workload: Workload
    workload_config: dict[str, Any]
    setup: Setup
    seed: int

    @property
    def labels(self) -> list[str]:
        """The runs to make."""
        return [CACHE_LABEL] if not self.setup.baseline else [BASELINE_LABEL, CACHE_LABEL]


def run_experiment(experiment: Experiment, on_progress: OnProgress = lambda *_: None) -> SimulationResult:
    """Make every run of an experiment, one after another.

    Raises:
        InvalidConfig, ModelDoesNotFit: See `Setup.cache_config`.
        Stalled: The scheduler found no way on.
    """
    config = experiment.setup.cache_config()
    runs = [_run(experiment, config, label, on_progress) for label in experiment.labels]
    return SimulationResult(
        config=describe(experiment, config),
        seed=experiment.seed,
        versions=versions(),
        notes=notes_of(experiment.workload),
        warnings=[warning for run in runs for warning in warnings_of(run, experiment.setup.pace)],
        runs=runs,
    )


def _run(experiment: Experiment, config: CacheConfig, label: str, on_progress: OnProgress) -> RunResult:
    setup = experiment.setup
    cache, executor = CACHES[label](config), CostModelExecutor(setup.cost)
    run = Simulation(
        experiment.workload,
        setup.pace,
        cache=cache,
        scheduler=Scheduler(cache, setup.scheduler, output_source=executor.tokens),
        executor=executor,
        on_progress=lambda settled: on_progress(label, settled),
    ).run()
    if label == BASELINE_LABEL or not setup.bounds:
        return run
    found = run_bounds(
        experiment.workload,
        page_size=config.page_size,
        capacity_tokens=config.num_pages * config.page_size,
        order=admission_order(run.requests),
    )
    return replace(run, bounds=found)


def describe(experiment: Experiment, config: CacheConfig) -> dict[str, Any]:
    """The full configuration of an experiment, as JSON values."""
    setup = experiment.setup
    capacity_from = "memory of the GPU" if setup.capacity_tokens is None else "given"
    return {
        "workload": described_workload(experiment.workload, experiment.workload_config),
        **described_pace(setup.pace),
        "cache": described_cache(config, capacity_from),
        "scheduler": described_scheduler(setup.scheduler),
        "cost_model": setup.cost.describe(),
    }


def notes_of(workload: Workload) -> list[str]:
    """What a reader of simulated figures should know."""
    return [
        "Times are simulated: the scheduler and the cache are the real ones, the GPU is a cost model.",
        "Generated tokens are made up; they occupy the cache, and hit where a later prompt contains them.",
        *workload.notes,
    ]
