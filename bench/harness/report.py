"""What a benchmark found: figures with the bound and the limit beside them."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Samples = Mapping[str, list[float]]
Points = list[tuple[float, float]]
Setting = int | float | str | list[int]


def percentile(samples: list[float], percent: int) -> float:
    """The smallest sample that at least `percent` % of them do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "median": statistics.median,
    "mean": statistics.fmean,
    "p99": lambda samples: percentile(samples, 99),
    "max": max,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a figure is held against, measured in the same run.

    Attributes:
        name: What it is.
        samples: As in the figure.
    """

    name: str
    samples: Samples

    def median(self, clock: str) -> float:
        """The median of the samples of one clock."""
        return float(statistics.median(self.samples[clock]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a figure should not exceed: `factor` x the median of the bound + `plus`.

    Attributes:
        statistic: Which statistic of the figure is meant, a key of `STATISTICS`.
        plus: In the unit of the figure.
        factor: Of the bound's median; 0 where the limit does not depend on one.
        low: The statistic should not fall below this, in the unit of the figure.
        source: Who asks for it: "issue", or "ours" where the issue names no number.
    """

    statistic: str
    plus: float = 0.0
    factor: float = 0.0
    low: float | None = None
    source: str = "issue"

    def text(self) -> str:
        """The limit in words."""
        terms = [f"{self.factor:g} x bound"] if self.factor else []
        if self.plus or not terms:
            terms.append(f"{self.plus:g}")
        low = "" if self.low is None else f"{self.low:g} <= "
        mark = "" if self.source == "issue" else f" ({self.source})"
        return f"{low}{self.statistic} <= {' + '.join(terms)}{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing measured.

    Attributes:
        name: What it is.
        unit: Unit of the samples.
        samples: Raw samples by clock ("cpu", "wall"), or under "value" for what is not time.
        bound: What it is held against.
        limits: What it should not exceed.
    """

    name: str
    unit: str
    samples: Samples
    bound: Bound | None = None
    limits: tuple[Limit, ...] = ()

    def statistic(self, name: str, clock: str) -> float:
        """A statistic of the samples of one clock."""
        return float(STATISTICS[name](self.samples[clock]))

    def ratio(self, clock: str) -> float | None:
        """Median over the bound's median; `None` without a bound."""
        if self.bound is None:
            return None
        below = self.bound.median(clock)
        return self.statistic("median", clock) / below if below else None

    def holds(self, limit: Limit, clock: str) -> bool:
        """Whether a limit holds by one clock."""
        value, high = self.statistic(limit.statistic, clock), limit.plus
        if limit.factor:
            assert self.bound is not None
            high += limit.factor * self.bound.median(clock)
        return value <= high and (limit.low is None or value >= limit.low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Figures as lines over a size.

    Attributes:
        name: Stem of its file.
        title: What it shows.
        x: What the size is.
        y: What was measured, with its unit.
        lines: Points (size, value), by name of the line; values on a logarithmic axis are > 0. Every point
            is marked, but for lines of more than 32, which are curves.
        levels: Horizontal lines to hold them against, by name.
        promises: Lines that were promised, a complexity or a bound, by name; dashed.
        log: The axes that are logarithmic: "xy", "x", "y" or "".
    """

    name: str
    title: str
    x: str
    y: str
    lines: dict[str, Points]
    levels: dict[str, float] = field(default_factory=dict)
    promises: dict[str, Points] = field(default_factory=dict)
    log: Literal["xy", "x", "y", ""] = "xy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of one benchmark.

    Attributes:
        name: Its name in the registry.
        question: What it asks.
        config: Every setting that a rerun needs.
        figures: In the order they are shown.
        notes: What to know when reading them.
        pictures: What is better drawn.
        error: Why there are no figures, where something went wrong.
        skipped: Why there are no figures, where something that it needs is not there.
    """

    name: str
    question: str
    config: dict[str, Setting] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    error: str | None = None
    skipped: str | None = None


def verdicts(report: Report) -> list[dict[str, str | float | bool]]:
    """Each limit of a report with what was measured, by clock."""
    return [
        {
            "figure": figure.name,
            "clock": clock,
            "limit": limit.text(),
            "value": figure.statistic(limit.statistic, clock),
            "holds": figure.holds(limit, clock),
        }
        for figure in report.figures
        for limit in figure.limits
        for clock in figure.samples
    ]
