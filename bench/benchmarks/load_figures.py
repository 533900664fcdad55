"""Figures and pictures of contenders by load. All points of one call are simulated, or all are measured."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from bench.harness.report import Bound, Figure, Picture
from bench.scenarios.load_point import SHARE, LoadPoint, capacity
from runtime.lab.probe import Limits

LoadRuns = Mapping[str, Mapping[float, Sequence[LoadPoint]]]
"""By contender, by rate: a point for each repetition. The first contender is the one without a cache."""


class Metric(NamedTuple):
    """A column of a point.

    Attributes:
        name: What it is.
        unit: Its unit.
        of: Its value; `None` where a contender has none.
    """

    name: str
    unit: str
    of: Callable[[LoadPoint], float | None]


METRICS = (
    Metric("TTFT p50", "ms", lambda point: point.ttft_s.p50 * 1e3),
    Metric("TTFT p99", "ms", lambda point: point.ttft_s.p99 * 1e3),
    Metric("TPOT p50", "ms", lambda point: point.tpot_s.p50 * 1e3),
    Metric("TPOT p99", "ms", lambda point: point.tpot_s.p99 * 1e3),
    Metric("goodput", "requests/s", lambda point: point.goodput_per_s),
    Metric("within the limits", "share", lambda point: point.share),
    Metric("arrived", "requests/s", lambda point: point.arrived_per_s),
    Metric("throughput", "requests/s", lambda point: point.finished_per_s),
)
HIT_RATE = Metric("hit rate", "share", lambda point: point.hit_rate)
CEILING = Metric("hit rate without limit of capacity", "share", lambda point: point.ceiling_rate)
OPTIMUM = Metric("optimum at this capacity", "share", lambda point: point.optimum_rate)


class Load(NamedTuple):
    """Points, and the words for them.

    Attributes:
        name: Of the benchmark.
        times: Where the times come from.
        unit: Of the rates.
        limits: What the goodput keeps.
        runs: The points.
    """

    name: str
    times: Literal["simulated", "measured"]
    unit: str
    limits: Limits
    runs: LoadRuns

    @property
    def baseline(self) -> str:
        """The contender without a cache."""
        return next(iter(self.runs))

    @property
    def rates(self) -> list[float]:
        """The rates, in ascending order."""
        return sorted(self.runs[self.baseline])

    def samples(self, metric: Metric, contender: str, rate: float) -> list[float]:
        """Values of a metric, by repetition."""
        values = (metric.of(point) for point in self.runs[contender][rate])
        return [round(value, 6) for value in values if value is not None]

    def line(self, metric: Metric, contender: str) -> list[tuple[float, float]]:
        """Medians of a metric over the repetitions, by rate."""
        return [(rate, median(self.samples(metric, contender, rate))) for rate in self.rates]

    def capacities(self, contender: str) -> list[float]:
        """The capacity in each repetition."""
        by_rate = self.runs[contender]
        return [
            capacity({rate: points[number].share for rate, points in by_rate.items()})
            for number in range(len(by_rate[self.rates[0]]))
        ]


def figures(load: Load) -> tuple[Figure, ...]:
    """Capacities, then each metric by rate and contender, beside the same without a cache."""
    made = list(_capacities(load))
    for metric in METRICS:
        for rate in load.rates:
            bound = Bound(name=load.baseline, samples={"value": load.samples(metric, load.baseline, rate)})
            made += [
                Figure(
                    name=_name(load, metric, contender, rate),
                    unit=metric.unit,
                    samples={"value": load.samples(metric, contender, rate)},
                    bound=None if contender == load.baseline else bound,
                )
                for contender in load.runs
            ]
    return (*made, *_hits(load))


def _name(load: Load, metric: Metric, contender: str, rate: float) -> str:
    return f"{load.times} {metric.name}, {rate:g} {load.unit}, {contender}"


def _capacities(load: Load) -> list[Figure]:
    """The largest rates within the limits, and how often the one without a cache goes into the others."""
    by_contender = {contender: load.capacities(contender) for contender in load.runs}
    without = by_contender[load.baseline]
    made = []
    for contender, found in by_contender.items():
        is_baseline = contender == load.baseline
        made.append(
            Figure(
                name=f"{load.times} capacity, {contender}",
                unit=load.unit,
                samples={"value": found},
                bound=None if is_baseline else Bound(name=load.baseline, samples={"value": without}),
            )
        )
        if not is_baseline and all(without):
            ratios = [round(one / other, 6) for one, other in zip(found, without, strict=True)]
            made.append(
                Figure(
                    name=f"{load.times} capacity, {contender} / {load.baseline}",
                    unit="ratio",
                    samples={"value": ratios},
                )
            )
    return made


def censored_notes(load: Load) -> tuple[str, ...]:
    """Which capacities lie at the end of the grid, so that they may be larger, a sentence a contender."""
    highest = load.rates[-1]
    counts = {contender: load.capacities(contender).count(highest) for contender in load.runs}
    return tuple(
        f"{contender}: within the limits at the highest rate in {count} of the samples; the capacity there "
        "is at least that."
        for contender, count in counts.items()
        if count
    )


def _hits(load: Load) -> list[Figure]:
    """Hit rates beside what was possible in the same order of admissions."""
    made = []
    cached = [contender for contender in load.runs if contender != load.baseline]
    for rate in load.rates:
        for contender in cached:
            optimum = load.samples(OPTIMUM, contender, rate)
            made.append(
                Figure(
                    name=_name(load, HIT_RATE, contender, rate),
                    unit=HIT_RATE.unit,
                    samples={"value": load.samples(HIT_RATE, contender, rate)},
                    bound=Bound(name=OPTIMUM.name, samples={"value": optimum}),
                )
            )
            made.append(
                Figure(
                    name=_name(load, CEILING, contender, rate),
                    unit=CEILING.unit,
                    samples={"value": load.samples(CEILING, contender, rate)},
                )
            )
    return made


def pictures(load: Load, offered: list[tuple[float, float]] | None = None) -> tuple[Picture, ...]:
    """TTFT, TPOT, goodput and hit rate by rate.

    Args:
        load: The points; medians over the repetitions are drawn.
        offered: Requests a second that would arrive if answers took no time, by rate.
    """
    limits = load.limits
    ttft, tpot, goodput = (metric for metric in METRICS if metric.name in {"TTFT p99", "TPOT p99", "goodput"})
    drawn = [
        _picture(load, ttft, "ttft", log="y", levels={f"limit {limits.ttft_s:g} s": limits.ttft_s * 1e3}),
        _picture(
            load, tpot, "tpot", log="", levels={f"limit {limits.tpot_s * 1e3:g} ms": limits.tpot_s * 1e3}
        ),
        _picture(
            load, goodput, "goodput", log="", promises={"offered, if answers took no time": offered or []}
        ),
    ]
    first = next(contender for contender in load.runs if contender != load.baseline)
    possible = {
        f"no limit of capacity, order of {first}": load.line(CEILING, first),
        f"optimum, order of {first}": load.line(OPTIMUM, first),
    }
    return (*drawn, _picture(load, HIT_RATE, "hits", log="", promises=possible))


def _picture(
    load: Load,
    metric: Metric,
    stem: str,
    *,
    log: Literal["y", ""],
    levels: dict[str, float] | None = None,
    promises: dict[str, list[tuple[float, float]]] | None = None,
) -> Picture:
    return Picture(
        name=f"{load.name}_{stem}",
        title=f"{metric.name} by load, {load.times}",
        x=load.unit,
        y=f"{load.times} {metric.name} [{metric.unit}]",
        lines={contender: load.line(metric, contender) for contender in load.runs},
        levels=levels or {},
        promises={name: points for name, points in (promises or {}).items() if points},
        log=log,
    )


def limits_note(limits: Limits) -> str:
    """What the goodput keeps, and what a capacity is."""
    return (
        f"Goodput counts requests with a TTFT of at most {limits.ttft_s:g} s and a TPOT of at most "
        f"{limits.tpot_s * 1e3:g} ms (both limits are ours). The capacity is the largest rate of the grid at "
        f"which, as at all lower ones, {SHARE:.0%} of the requests keep both; 0 if at none."
    )
