"""Small workloads and a device whose times can be reckoned in the head."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from radixcache import CacheConfig, NullPrefixCache, PrefixCache
from runtime.clock import PS_PER_S
from runtime.cost import CostModel, find_gpu, find_model
from runtime.executor import CostModelExecutor, StepOutput
from runtime.result import RequestRecord, RunResult, SimulationResult, to_json
from runtime.simulation import OpenLoop, Pace, Simulation
from runtime.workload import Literal, OutputOf, Session, Turn, Workload
from scheduler import Scheduler, SchedulerConfig, StepPlan
from scheduler.plan import Decodes

BOTH_CACHES = (PrefixCache, NullPrefixCache)


def literal(first: int, num_tokens: int) -> Literal:
    return Literal(np.arange(first, first + num_tokens, dtype=np.int32))


def turn(first: int, num_tokens: int, output_len: int = 1, **more: Any) -> Turn:
    return Turn(segments=(literal(first, num_tokens),), output_len=output_len, **more)


def follow_up(
    earlier: Turn, number: int, first: int, num_tokens: int, output_len: int = 1, **more: Any
) -> Turn:
    """The prompt of `earlier`, its output, and a new question."""
    segments = (*earlier.segments, OutputOf(number), literal(first, num_tokens))
    return Turn(segments=segments, output_len=output_len, after=(number,), **more)


def workload(*sessions: tuple[float, Sequence[Turn]]) -> Workload:
    made = [
        Session(session_id=f"s{number}", start_s=start_s, turns=tuple(turns))
        for number, (start_s, turns) in enumerate(sessions)
    ]
    return Workload(name="by hand", sessions=made)


class FlatDevice(CostModelExecutor):
    """A step takes one second, and a tenth more for each token."""

    def __init__(self) -> None:
        super().__init__(small_cost())
        self.plans: list[StepPlan] = []

    def execute(self, plan: StepPlan) -> StepOutput:
        self.plans.append(plan)
        num_tokens = plan.num_tokens * plan.num_steps
        elapsed = plan.num_steps * PS_PER_S + num_tokens * PS_PER_S // 10
        return StepOutput(super().execute(plan).tokens, elapsed)

    def steps_until(self, decodes: Decodes, time_left_ps: int) -> int:
        return max(1, -(-time_left_ps // (PS_PER_S + decodes.num_rows * PS_PER_S // 10)))


def small_cost() -> CostModel:
    return CostModel(model=find_model("Qwen3-0.6B"), gpu=find_gpu("L4"))


def simulation(
    load: Workload,
    pace: Pace | None = None,
    *,
    num_pages: int = 4096,
    page_size: int = 4,
    cache: type[PrefixCache] = PrefixCache,
    executor: CostModelExecutor | None = None,
    coalesce: bool | None = None,
    eviction: str = "lru",
    partial_reuse: bool = False,
    plain: bool = False,
    **settings: Any,
) -> Simulation:
    made = cache(
        CacheConfig(num_pages=num_pages, page_size=page_size, eviction=eviction, partial_reuse=partial_reuse)
    )
    runs = executor or CostModelExecutor(small_cost())
    return Simulation(
        load,
        pace or OpenLoop(),
        cache=made,
        scheduler=Scheduler(made, SchedulerConfig(**settings), output_source=None if plain else runs.tokens),
        executor=runs,
        coalesce=not plain if coalesce is None else coalesce,
    )


def simulate(load: Workload, pace: Pace | None = None, **more: Any) -> RunResult:
    return simulation(load, pace, **more).run()


def as_bytes(run: RunResult) -> bytes:
    return to_json(SimulationResult(config={}, seed=0, versions={}, notes=[], warnings=[], runs=[run]))


def by_id(run: RunResult) -> dict[str, RequestRecord]:
    return {record.request_id: record for record in run.requests}
