"""A grid of policies, capacities and seeds on one workload, side by side."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import median
from typing import Final

from radixcache.errors import InvalidConfig, RadixCacheError
from runtime.document import Json, study_document
from runtime.lab.cell import CellMetrics, CellSpec, WorkloadSource, run_cell
from runtime.lab.parallel import run_all
from runtime.simulation import Setup

_SCHEMA: Final = "radixcache.comparison"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One simulation.

    Attributes:
        spec: What was simulated.
        metrics: What it found; None if it failed.
        error: Why it failed; None if it did not.
    """

    spec: CellSpec
    metrics: CellMetrics | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A metric over the seeds.

    Attributes:
        low: Smallest value.
        median: Median; the mean of the two in the middle where their number is even.
        high: Largest value.
    """

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """All seeds of one pair of policies in one pool.

    Attributes:
        eviction: Eviction policy.
        policy: Order of the waiting queue.
        capacity_tokens: Size of the pool.
        num_failed: Seeds that failed and are not counted.
        metrics: Each metric of `CellMetrics` over the seeds; None where no seed has it.
    """

    eviction: str
    policy: str
    capacity_tokens: int
    num_failed: int
    metrics: dict[str, Range | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is compared: every combination.

    Attributes:
        evictions: Eviction policies.
        policies: Orders of the waiting queue.
        capacities: Sizes of the pool. Unit: tokens, whole pages.
        seeds: Seeds of the workload.

    Raises:
        InvalidConfig: One of them is empty, or names something twice.
    """

    evictions: tuple[str, ...]
    policies: tuple[str, ...]
    capacities: tuple[int, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            if not values or len(set(values)) != len(values):
                raise InvalidConfig(f"{field.name}: at least one and none twice, got {list(values)}")

    def cells(self) -> list[CellSpec]:
        """All combinations; seeds change slowest, so that workloads are made once and shared."""
        return [
            CellSpec(eviction=eviction, policy=policy, capacity_tokens=capacity, seed=seed)
            for seed, eviction, policy, capacity in product(
                self.seeds, self.evictions, self.policies, self.capacities
            )
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that a comparison found.

    Attributes:
        config: Full configuration, as JSON values.
        versions: Version of each package that had a say.
        notes: What a reader should know.
        grid: What was compared.
        warmup: Share of the requests that was served but not counted.
        cells: Every simulation, in the order of the grid.
        groups: The same over the seeds.
    """

    config: dict[str, Json]
    versions: dict[str, str]
    notes: list[str]
    grid: Grid
    warmup: float
    cells: list[Cell]
    groups: list[Group]

    @property
    def failed(self) -> list[Cell]:
        """The cells that failed."""
        return [cell for cell in self.cells if cell.metrics is None]

    @property
    def seeds_agree(self) -> bool:
        """Whether more than one seed was used and no metric depends on it."""
        spread = (each for group in self.groups for each in group.metrics.values() if each is not None)
        return len(self.grid.seeds) > 1 and all(each.low == each.high for each in spread)

    def to_json(self) -> bytes:
        """The comparison as one JSON document."""
        return study_document(_SCHEMA, _SCHEMA_VERSION, self)


def compare(
    source: WorkloadSource,
    setup: Setup,
    grid: Grid,
    *,
    config: dict[str, Json],
    notes: list[str],
    versions: dict[str, str],
    warmup: float = 0.1,
    workers: int = 1,
    on_done: Callable[[int], None] = lambda _: None,
) -> Comparison:
    """Simulate every cell of a grid, in parallel processes. A cell that fails does not stop the others.

    Args:
        source: Makes the workload of each seed.
        setup: How it is served, but for what the grid says.
        grid: What is compared.
        config: Where these come from, for the reader.
        notes: What a reader should know.
        versions: Version of each package that has a say.
        warmup: Share of the requests, first arrivals first, that are served but not counted, in [0, 1).
        workers: Processes at once, >= 1. Changes no result.
        on_done: Called with the number of each cell that is done.

    Raises:
        InvalidConfig: `warmup` or `workers` out of range.
    """
    if not 0 <= warmup < 1:
        raise InvalidConfig(f"the warm-up is a share of the requests in [0, 1), got {warmup}")
    specs = grid.cells()
    job = partial(_run, source, setup, warmup)
    found = run_all(job, specs, workers=workers, on_done=on_done)
    cells = [_cell(spec, each) for spec, each in zip(specs, found, strict=True)]
    return Comparison(
        config=config,
        versions=versions,
        notes=notes,
        grid=grid,
        warmup=warmup,
        cells=cells,
        groups=_groups(grid, cells),
    )


def _run(source: WorkloadSource, setup: Setup, warmup: float, spec: CellSpec) -> CellMetrics | str:
    """The metrics of a cell, or why there are none: our own errors do not all survive pickling."""
    try:
        return run_cell(source, setup, spec, warmup)
    except (RadixCacheError, OSError, MemoryError) as error:
        return _said(error)


def _cell(spec: CellSpec, found: CellMetrics | str | BaseException) -> Cell:
    if isinstance(found, CellMetrics):
        return Cell(spec=spec, metrics=found, error=None)
    return Cell(spec=spec, metrics=None, error=found if isinstance(found, str) else _said(found))


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _groups(grid: Grid, cells: Sequence[Cell]) -> list[Group]:
    groups = []
    for eviction, policy, capacity in product(grid.evictions, grid.policies, grid.capacities):
        wanted = (eviction, policy, capacity)
        mine = [cell for cell in cells if _place(cell.spec) == wanted]
        metrics = [cell.metrics for cell in mine if cell.metrics is not None]
        groups.append(
            Group(
                eviction=eviction,
                policy=policy,
                capacity_tokens=capacity,
                num_failed=len(mine) - len(metrics),
                metrics={
                    field.name: _range([getattr(each, field.name) for each in metrics])
                    for field in dataclasses.fields(CellMetrics)
                },
            )
        )
    return groups


def _place(spec: CellSpec) -> tuple[str, str, int]:
    return spec.eviction, spec.policy, spec.capacity_tokens


def _range(values: Sequence[float | None]) -> Range | None:
    known = [value for value in values if value is not None]
    return Range(low=min(known), median=median(known), high=max(known)) if known else None
