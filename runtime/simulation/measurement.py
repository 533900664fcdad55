"""A measurement: one workload on a real model, with the cache and without, every step timed as it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import numpy as np

from radixcache import CacheConfig
from radixcache.namespace import namespace_key
from runtime.executor import Executor
from runtime.lab.bounds import bounds
from runtime.lab.keys import PageKeys
from runtime.lab.pages import PageTrace, TraceBuilder
from runtime.result import BASELINE_LABEL, CACHE_LABEL, Bounds, RunResult, SimulationResult
from runtime.simulation.arrivals import ClosedLoop, OpenLoop, Pace
from runtime.simulation.description import (
    described_cache,
    described_pace,
    described_scheduler,
    described_workload,
    versions,
    warnings_of,
)
from runtime.simulation.experiment import CACHES, OnProgress
from runtime.simulation.simulator import Simulation
from runtime.workload import Literal, Session, Turn, Workload
from scheduler import Request, Scheduler, SchedulerConfig

_WARM_UP_TOKENS: Final = 256
_WARM_UP_OUTPUT: Final = 4


class Machine(Protocol):
    """A model on a device, and what serves it."""

    @property
    def vocab(self) -> int:
        """Token ids that the model knows: [0, vocab)."""
        ...

    @property
    def max_context(self) -> int:
        """Tokens of prompt and output together that the model takes at most."""
        ...

    def executor(self, config: CacheConfig) -> Executor:
        """A new executor with KV for the pages of a cache; always takes the likeliest token."""
        ...

    def describe(self) -> dict[str, Any]:
        """What times rest on, as JSON values."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Version of each package that has a say in its times."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A workload and how it is served on a machine.

    Attributes:
        workload: What arrives. Its token ids are the machine's, see `runtime.workload.vocabulary`.
        workload_config: Where it comes from, as JSON values for the report.
        cache: Settings of the cache.
        capacity_from: Why it is that large, for the report.
        scheduler: Settings of the scheduler.
        pace: When sessions start.
        baseline: Whether the run without a cache is made too.
        bounds: Whether the run with a cache is told what was possible in its order of admissions.
        seed: The seed the workload was made with.
    """

    workload: Workload
    workload_config: dict[str, Any]
    cache: CacheConfig
    capacity_from: str = "given"
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    pace: Pace = field(default_factory=OpenLoop)
    baseline: bool = True
    bounds: bool = True
    seed: int = 0

    @property
    def labels(self) -> list[str]:
        """The runs to make."""
        return [BASELINE_LABEL, CACHE_LABEL] if self.baseline else [CACHE_LABEL]


def run_measurement(
    measurement: Measurement, machine: Machine, on_progress: OnProgress = lambda *_: None
) -> SimulationResult:
    """Make every run of a measurement, one after another, after a short one that does not count.

    Args:
        measurement: What to serve, and how.
        machine: What it runs on.
        on_progress: Told of the turns that were settled.

    Returns:
        As a simulation gives it, with the times that steps took.

    Raises:
        Stalled: The scheduler found no way on.
        RadixCacheError: What the machine raises; it ends the measurement.
    """
    _warm_up(measurement, machine)
    runs = [_run(measurement, machine, label, on_progress) for label in measurement.labels]
    return SimulationResult(
        config={
            "workload": described_workload(measurement.workload, measurement.workload_config),
            **described_pace(measurement.pace),
            "cache": described_cache(measurement.cache, measurement.capacity_from),
            "scheduler": described_scheduler(measurement.scheduler),
            "machine": machine.describe(),
        },
        seed=measurement.seed,
        versions=versions() | dict(machine.versions()),
        notes=[*_NOTES, *measurement.workload.notes],
        warnings=[warning for run in runs for warning in warnings_of(run, measurement.pace)],
        runs=runs,
    )


_NOTES: Final = """\
Times are measured: the model computes each step, and the clock goes on by what it took. The work of \
scheduler and cache between steps is not in it; pauses of users pass on the clock, and nobody waits for them.
Another run gives other times. A short run that does not count goes first; then one run follows the other.
Answers are decoded greedily, each as long as its turn says: tokens that would end it earlier are ignored.
""".splitlines()


def _run(measurement: Measurement, machine: Machine, label: str, on_progress: OnProgress) -> RunResult:
    served: list[Request] = []
    run = _simulation(
        measurement,
        machine,
        label,
        on_progress=lambda settled: on_progress(label, settled),
        on_settled=served.append,
    ).run()
    if label == BASELINE_LABEL or not measurement.bounds:
        return run
    return replace(run, bounds=_bounds(served, measurement.cache))


def _simulation(measurement: Measurement, machine: Machine, label: str, **more: Any) -> Simulation:
    cache = CACHES[label](measurement.cache)
    return Simulation(
        measurement.workload,
        measurement.pace,
        cache=cache,
        scheduler=Scheduler(cache, measurement.scheduler),
        executor=machine.executor(measurement.cache),
        max_context=machine.max_context,
        **more,
    )


def _warm_up(measurement: Measurement, machine: Machine) -> None:
    """One request: what a library does when it is first asked should burden no run."""
    page = measurement.cache.page_size
    room = min(machine.max_context, page * measurement.cache.num_pages) - _WARM_UP_OUTPUT
    if room < 1:
        return
    tokens = np.arange(min(room, _WARM_UP_TOKENS), dtype=np.int32) % machine.vocab
    turn = Turn(segments=(Literal(tokens),), output_len=_WARM_UP_OUTPUT)
    session = Session(session_id="warm-up", start_s=0.0, turns=(turn,))
    small = replace(measurement, workload=Workload(name="warm-up", sessions=(session,)), pace=ClosedLoop(1))
    _simulation(small, machine, BASELINE_LABEL).run()


def _bounds(served: list[Request], config: CacheConfig) -> Bounds:
    """What was possible, with the outputs that were really generated: two users may get the same."""
    return bounds(_page_trace(served, config.page_size), config.num_pages * config.page_size)


def _page_trace(served: list[Request], page_size: int) -> PageTrace:
    keys, builder = PageKeys(page_size), TraceBuilder(page_size)
    admitted = [
        (request.first_scheduled_at, request.submitted_at or 0.0, place, request)
        for place, request in enumerate(served)
        if request.first_scheduled_at is not None
    ]
    for *_, request in sorted(admitted, key=lambda entry: entry[:3]):
        # The last generated token has no KV.
        tokens = np.concatenate((request.prompt.numpy(), np.array(request.output[:-1], dtype=np.int32)))
        builder.add(
            namespace_key(request.namespace),
            keys.of_tokens(tokens),
            prompt_tokens=request.prompt_len,
            match_pages=(request.prompt_len - 1) // page_size,
            used_pages=-(-len(tokens) // page_size),
        )
    return builder.build()
