"""How much a device can serve within latency limits, and what another GiB of cache would buy."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from radixcache.errors import InvalidConfig
from runtime.document import Json, study_document
from runtime.lab.curve import kv_gib
from runtime.lab.ladder import Ladder, PaceKind
from runtime.lab.probe import Limits, Probe, probe
from runtime.lab.search import largest_holding
from runtime.simulation import Experiment

MORE_GIB: Final = (1.0, 2.0, 4.0, 8.0)
"""By how much the pool is enlarged when nothing else is said."""

_GIB: Final = 2**30
_SCHEMA: Final = "radixcache.plan"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What one size of the pool can do.

    Attributes:
        more_gib: How much larger it is than the pool that was asked for. Unit: GiB.
        capacity_tokens: Tokens of KV that it holds.
        gib: The same for the model, over all its GPUs. Unit: GiB.
        best: The probe with the largest rate at which the limits hold; None if they hold at none.
        same_rate: The probe at the largest rate of the pool that was asked for; None if there is none.
        unbounded: Whether the limits hold even at the highest rate that was to be tried.
        probes: Every simulation, in the order in which they were made.
    """

    more_gib: float
    capacity_tokens: int
    gib: float
    best: Probe | None
    same_rate: Probe | None
    unbounded: bool
    probes: list[Probe]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A capacity plan. All times and rates are simulated.

    Attributes:
        config: Full configuration, as JSON values; pool and pace are those of each probe.
        seed: Seed of every random choice.
        versions: Version of each package that had a say.
        notes: What a reader should know.
        limits: What has to hold.
        by: Whether rates are densities of session starts, or numbers of users.
        tolerance: Two rates that are told apart differ by this share, or by one user.
        pools: The pool that was asked for, then the others.
    """

    config: dict[str, Json]
    seed: int
    versions: dict[str, str]
    notes: list[str]
    limits: Limits
    by: PaceKind
    tolerance: float
    pools: list[PoolPlan]

    def to_json(self) -> bytes:
        """The plan as one JSON document."""
        return study_document(_SCHEMA, _SCHEMA_VERSION, self)


def make_plan(
    experiment: Experiment,
    *,
    limits: Limits,
    config: dict[str, Json],
    notes: list[str],
    versions: dict[str, str],
    by: PaceKind = "rate",
    tolerance: float = 0.05,
    more_gib: Sequence[float] = MORE_GIB,
    on_progress: Callable[[str, int], None] = lambda *_: None,
) -> Plan:
    """Find the largest rate for the pool of an experiment, and for larger or smaller ones.

    Every probe is a whole simulation. Rates stand on a ladder with a factor of 1 + `tolerance` between
    steps, so the answer is exact to one step if the limits hold at all rates below one at which they hold.

    Args:
        experiment: What is served and how; its pace is not used.
        limits: What has to hold.
        config: Where it comes from, for the reader.
        notes: What a reader should know.
        versions: Version of each package that has a say.
        by: What is varied.
        tolerance: Distance of rates, in (0, 1].
        more_gib: How much larger other pools are; may be negative. Unit: GiB.
        on_progress: Called with the name of a probe and the number of its turns that were settled since the
            last call.

    Raises:
        InvalidConfig: A value out of range, a pool of no page, or a workload without requests.
        RadixCacheError: See `run_experiment`.

    Complexity:
        About a dozen simulations for the first pool, a handful for each of the others.
    """
    if not experiment.workload.num_turns:
        raise InvalidConfig(f"workload {experiment.workload.name!r} has no request")
    planner = _Planner(experiment, limits, Ladder.of(by, experiment.workload, tolerance), on_progress)
    sizes = [planner.capacity(gib) for gib in (0.0, *more_gib)]
    first = planner.plan(0.0, sizes[0], None)
    others = [planner.plan(gib, size, first) for gib, size in zip(more_gib, sizes[1:], strict=True)]
    return Plan(
        config=config,
        seed=experiment.seed,
        versions=versions,
        notes=notes,
        limits=limits,
        by=by,
        tolerance=tolerance,
        pools=[first, *others],
    )


class _Planner:
    """Makes and numbers the probes of a plan."""

    def __init__(
        self,
        experiment: Experiment,
        limits: Limits,
        ladder: Ladder,
        on_progress: Callable[[str, int], None],
    ) -> None:
        self._experiment = experiment
        self._limits = limits
        self._ladder = ladder
        self._on_progress = on_progress
        self._num_probes = 0

    def capacity(self, more_gib: float) -> int:
        """Tokens of a pool so much larger than that of the experiment, whole pages."""
        config, cost = self._experiment.setup.cache_config(), self._experiment.setup.cost
        more_pages = round(more_gib * _GIB / cost.model.kv_bytes_per_token(cost.kv_dtype)) // config.page_size
        num_pages = config.num_pages + more_pages
        if num_pages < 1:
            tokens = config.num_pages * config.page_size
            raise InvalidConfig(f"a pool of {tokens:,} tokens and {more_gib:+g} GiB holds no page")
        return num_pages * config.page_size

    def plan(self, more_gib: float, capacity_tokens: int, first: PoolPlan | None) -> PoolPlan:
        """Search the ladder for one pool, from where the first pool's answer was."""
        ladder, probes = self._ladder, dict[int, Probe]()

        def holds(step: int) -> bool:
            probes[step] = self._probe(step, more_gib, capacity_tokens)
            return probes[step].holds

        known = None if first is None or first.best is None else ladder.values.index(first.best.rate)
        step = largest_holding(
            holds,
            start=ladder.start if known is None else known,
            low=0,
            high=len(ladder.values) - 1,
            stride=ladder.doubling if known is None else 1,
        )
        cost = self._experiment.setup.cost
        best = None if step is None else probes[step]
        return PoolPlan(
            more_gib=more_gib,
            capacity_tokens=capacity_tokens,
            gib=kv_gib(capacity_tokens, cost.model, cost.kv_dtype),
            best=best,
            same_rate=best if known is None else probes[known],
            unbounded=step == len(ladder.values) - 1,
            probes=sorted(probes.values(), key=lambda each: each.number),
        )

    def _probe(self, step: int, more_gib: float, capacity_tokens: int) -> Probe:
        self._num_probes += 1
        number, value = self._num_probes, self._ladder.values[step]
        rate = f"{value:.3g} x" if self._ladder.kind == "rate" else f"{value:.0f} users"
        pool = f", {more_gib:+g} GiB" if more_gib else ""
        return probe(
            self._experiment,
            self._limits,
            number=number,
            capacity_tokens=capacity_tokens,
            pace=self._ladder.pace(step),
            on_progress=lambda settled: self._on_progress(f"probe {number}: {rate}{pool}", settled),
        )
