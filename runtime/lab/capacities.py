"""What a cache of every size finds in a workload, and which size is enough."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from radixcache.errors import InvalidArgument
from runtime.document import Json, study_document
from runtime.lab.curve import CapacityCurve, kv_gib, lru_curve
from runtime.lab.optimum import optimum_tokens
from runtime.lab.order import INSTANT, AnswerTimes
from runtime.lab.pages import PageTrace, page_trace
from runtime.simulation import Setup
from runtime.workload import Workload

SHARES: Final = (0.9, 0.95, 0.99)
"""Shares of the ceiling for which the least capacity is named."""

_SCHEMA: Final = "radixcache.curve"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A cache of one size.

    Attributes:
        capacity_tokens: Tokens of KV that it holds.
        gib: The same for the model, all layers, over all its GPUs. Unit: GiB.
        lru_hit_rate: What LRU finds; None where the longest request does not fit.
        optimum_hit_rate: What clairvoyant eviction finds; None likewise.
        of_ceiling: Hit rate of LRU / ceiling; None likewise, and where nothing can be found.
    """

    capacity_tokens: int
    gib: float
    lru_hit_rate: float | None
    optimum_hit_rate: float | None
    of_ceiling: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A share of the ceiling, and the smallest LRU cache that reaches it.

    Attributes:
        share: The share.
        reached: By a cache of that size.
    """

    share: float
    reached: Capacity


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityStudy:
    """The hit rate of a workload as a function of the capacity; requests are served one after the other.

    Attributes:
        config: Full configuration, as JSON values.
        seed: Seed of every random choice.
        versions: Version of each package that had a say.
        notes: What a reader should know.
        num_requests: Requests.
        prompt_tokens: Tokens of all prompts.
        distinct_tokens: Tokens of all different pages.
        ceiling_hit_rate: What a cache without limit finds.
        curve_tokens: Capacities, ascending, evenly spaced in the logarithm: from what the longest request
            needs to where LRU finds all that can be found.
        curve_hit_rate: What LRU finds at each of them.
        optima: Some of these capacities, with the optimum.
        targets: One for each of the shares; none where nothing can be found.
        pool: The pool of the modelled GPU.
    """

    config: dict[str, Json]
    seed: int
    versions: dict[str, str]
    notes: list[str]
    num_requests: int
    prompt_tokens: int
    distinct_tokens: int
    ceiling_hit_rate: float
    curve_tokens: list[int]
    curve_hit_rate: list[float]
    optima: list[Capacity]
    targets: list[Target]
    pool: Capacity

    def to_json(self) -> bytes:
        """The study as one JSON document."""
        return study_document(_SCHEMA, _SCHEMA_VERSION, self)


def study_capacities(
    workload: Workload,
    setup: Setup,
    *,
    config: dict[str, Json],
    seed: int,
    versions: dict[str, str],
    answers: AnswerTimes = INSTANT,
    num_points: int = 200,
    num_optima: int = 12,
    on_progress: Callable[[str, int], None] = lambda *_: None,
) -> CapacityStudy:
    """Study a workload.

    Args:
        workload: Who asks for what; served in nominal order, one after the other.
        setup: Model, GPU, page size and pool.
        config: Where these come from, for the reader.
        seed: The seed that the workload was made with.
        versions: Version of each package that has a say.
        answers: How long answers take, which decides how many sessions are alive at a time.
        num_points: Points of the curve at most, >= 2.
        num_optima: Capacities at most for which the optimum is reckoned, >= 1.
        on_progress: Called with "optimum" and 1 after each of them; the pool is one more.

    Raises:
        InvalidArgument: The workload has no request, or a number is below its limit.
        InvalidConfig, ModelDoesNotFit: See `Setup.cache_config`.

    Complexity:
        See `page_trace`, `lru_curve` and, for each optimum, `optimal_hits`.
    """
    if num_points < 2 or num_optima < 1:
        raise InvalidArgument(
            f"a curve has at least 2 points and 1 optimum, got {num_points} and {num_optima}"
        )
    cache = setup.cache_config()
    trace = page_trace(workload, page_size=cache.page_size, answers=answers)
    if not len(trace):
        raise InvalidArgument(f"workload {workload.name!r} has no request")
    curve = lru_curve(trace)

    def at(capacity_tokens: int) -> Capacity:
        return _capacity(setup, trace, curve, capacity_tokens)

    def noted(found: Capacity) -> Capacity:
        on_progress("optimum", 1)
        return found

    points = curve.points(num_points)
    return CapacityStudy(
        config=config,
        seed=seed,
        versions=versions,
        notes=[*workload.notes, answers.note],
        num_requests=len(trace),
        prompt_tokens=curve.prompt_tokens,
        distinct_tokens=trace.num_distinct * trace.page_size,
        ceiling_hit_rate=curve.ceiling_rate,
        curve_tokens=[tokens for tokens, _ in points],
        curve_hit_rate=[rate for _, rate in points],
        optima=[noted(at(tokens)) for tokens in _spread([t for t, _ in points], num_optima)],
        targets=[
            Target(share=share, reached=at(curve.capacity_for(share)))
            for share in SHARES
            if curve.ceiling_pages
        ],
        pool=noted(at(cache.num_pages * cache.page_size)),
    )


def _capacity(setup: Setup, trace: PageTrace, curve: CapacityCurve, capacity_tokens: int) -> Capacity:
    lru: float | None = None
    optimum: float | None = None
    if capacity_tokens >= curve.min_capacity_tokens:
        lru = float(curve.hit_rate(capacity_tokens))
        optimum = optimum_tokens(trace, capacity_tokens) / curve.prompt_tokens
    return Capacity(
        capacity_tokens=capacity_tokens,
        gib=kv_gib(capacity_tokens, setup.cost.model, setup.cost.kv_dtype),
        lru_hit_rate=lru,
        optimum_hit_rate=optimum,
        of_ceiling=None if lru is None or not curve.ceiling_pages else lru / curve.ceiling_rate,
    )


def _spread(tokens: list[int], count: int) -> list[int]:
    """So many of these at most, evenly spaced, the ends among them."""
    places = np.unique(np.linspace(0, len(tokens) - 1, min(count, len(tokens))).round().astype(np.int64))
    return [tokens[place] for place in places.tolist()]
