"""A comparison of policies in words, tables and plots."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.lab.comparison import Comparison, Group, Range
from runtime.report.figure import Figure, plain, tidy
from runtime.report.formatting import MISSING, count, duration, rate, share, span
from runtime.report.study import Fact, Sheet, Study
from runtime.report.subject import subject

_COLUMNS: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "hit_rate": ("hit rate", share),
    "of_ceiling": ("hit / ceiling", share),
    "of_optimum": ("hit / optimum", share),
    "ttft_p50_s": ("TTFT p50", duration),
    "ttft_p99_s": ("TTFT p99", duration),
    "tpot_p99_s": ("TPOT p99", duration),
    "output_tokens_per_s": ("output tokens / s", rate),
    "recomputed_tokens": ("tokens recomputed", count),
    "not_finished": ("requests not finished", count),
}
_SHEETS: Final = {
    "What the cache finds": ("hit_rate", "of_ceiling", "of_optimum"),
    "Latency and throughput (simulated)": ("ttft_p50_s", "ttft_p99_s", "tpot_p99_s", "output_tokens_per_s"),
    "Preempted, or not finished": ("recomputed_tokens", "not_finished"),
}
"""Tables of a few columns each, so that they fit a terminal of 80 columns with ranges over seeds."""

_LINEAR: Final = {"rangemode": "tozero"}
_EXCEPTIONS: Final = ("recomputed_tokens", "not_finished")
"""What is 0 where all is well, and needs no table then."""

_COLORS: Final = ("$cache", "$baseline", "$other-1", "$other-2", "$miss-5", "$miss-6", "$miss-3", "$good")
_DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def compare_study(found: Comparison) -> Study:
    """The study that `radixcache compare` shows."""
    grid = found.grid
    return Study(
        command="compare",
        title=subject(found.config),
        lead=f"Eviction policies: {len(grid.evictions)}, queue policies: {len(grid.policies)}, capacities: "
        f"{len(grid.capacities)}, seeds: {len(grid.seeds)}; every combination. The first "
        f"{share(found.warmup)} of the requests of each run warm the cache up and are not counted. Every "
        "time and rate is simulated.",
        facts=_facts(found),
        figures=[
            _figure(found, "hit_rate", "Hit rate", {"tickformat": ".0%", "rangemode": "tozero"}),
            _figure(found, "ttft_p99_s", "TTFT p99, simulated seconds", {"type": "log"}),
        ],
        sheets=[*_sheets(found), *_failures(found)],
        warnings=_warnings(found),
        notes=[*found.notes, *_notes(found)],
        config={**found.config, "versions": dict(found.versions)},
    )


def _name(group: Group) -> str:
    return f"{group.eviction} · {group.policy}"


def _facts(found: Comparison) -> list[Fact]:
    facts = [
        Fact(
            name="Simulations",
            value=f"{len(found.cells):,}",
            remark=f"{len(found.failed)} failed" if found.failed else "none failed",
        )
    ]
    for metric, name, best in (
        ("hit_rate", "Highest hit rate", max),
        ("ttft_p99_s", "Shortest TTFT p99", min),
        ("output_tokens_per_s", "Most output tokens / s", max),
    ):
        known = [(each.median, group) for group in found.groups if (each := group.metrics[metric])]
        if known:
            value, group = best(known, key=lambda pair: pair[0])
            remark = f"{_name(group)}, {group.capacity_tokens:,} tokens"
            facts.append(Fact(name=name, value=_COLUMNS[metric][1](value), remark=remark))
    return facts


def _warnings(found: Comparison) -> list[str]:
    warnings = []
    if found.failed:
        first = found.failed[0]
        warnings.append(
            f"{len(found.failed)} of {len(found.cells)} simulations failed, the first ({first.spec.name}) "
            f"because: {first.error}"
        )
    loads = [cell.metrics.offered_load for cell in found.cells if cell.metrics is not None]
    heavy = sum(load > 1 for load in loads)
    if heavy:
        warnings.append(
            f"In {heavy} of {len(found.cells)} simulations more work arrives than can be served: latencies "
            "then measure the length of the trace, not the service."
        )
    if _pools_agree(found):
        least = min(found.grid.capacities)
        bounds = [each for group in found.groups if (each := group.metrics["of_ceiling"])]
        fits = all(each.low == 1 for each in bounds)
        reason = f": even that of {least:,} tokens holds all that is used again" if bounds and fits else ""
        warnings.append(
            f"All capacities give the same figures{reason}. Give more sessions, for instance with "
            "--set num_sessions=N, or smaller --capacities."
        )
    return warnings


def _pools_agree(found: Comparison) -> bool:
    """Whether more than one capacity was used and no metric depends on it."""
    same: dict[tuple[str, str], Group] = {}
    return len(found.grid.capacities) > 1 and all(
        group.metrics == same.setdefault((group.eviction, group.policy), group).metrics
        and not group.num_failed
        for group in found.groups
    )


def _notes(found: Comparison) -> list[str]:
    warmup = (
        f"Warm-up: the first {share(found.warmup)} of the requests by arrival are served and left out of "
        "every metric; throughput counts from the first arrival behind them."
    )
    bounds = (
        "Hit / ceiling and hit / optimum: matched tokens by those that a cache without limit, and "
        "clairvoyant eviction in a pool of this size, would have found in the same order of first admissions."
    )
    if found.seeds_agree:
        return [warmup, bounds, "All seeds give the same figures: this workload draws nothing."]
    if len(found.grid.seeds) > 1:
        return [warmup, bounds, "Over the seeds: median, below it smallest to largest."]
    return [warmup, bounds]


def _sheets(found: Comparison) -> list[Sheet]:
    return [
        _sheet(found, title, metrics)
        for title, metrics in _SHEETS.items()
        if any(_is_shown(found, metric) for metric in metrics)
    ]


def _sheet(found: Comparison, title: str, metrics: Sequence[str]) -> Sheet:
    """All pairs of policies in the smallest pool, then in the next: what is compared stands together."""
    groups = sorted(found.groups, key=lambda group: group.capacity_tokens)
    return Sheet(
        title=title,
        columns=["eviction · queue", *(_COLUMNS[metric][0] for metric in metrics)],
        rows=[
            [_name(group), *(_over_seeds(group.metrics[metric], _COLUMNS[metric][1]) for metric in metrics)]
            for group in groups
        ],
        groups=[f"{group.capacity_tokens:,} tokens" for group in groups],
    )


def _is_shown(found: Comparison, metric: str) -> bool:
    values = [group.metrics[metric] for group in found.groups]
    return metric not in _EXCEPTIONS or any(each is not None and each.high for each in values)


def _over_seeds(values: Range | None, show: Callable[[float], str], between: str = "\n") -> str:
    if values is None:
        return MISSING
    low, middle, high = show(values.low), show(values.median), show(values.high)
    return middle if low == high else f"{middle}{between}{span(low, high)}"


def _failures(found: Comparison) -> list[Sheet]:
    if not found.failed:
        return []
    rows = [[cell.spec.name, cell.error or ""] for cell in found.failed]
    return [Sheet(title="Simulations that failed", columns=["simulation", "error"], rows=rows)]


def _figure(found: Comparison, metric: str, title: str, axis: dict[str, Any]) -> Figure:
    by_capacity = len(found.grid.capacities) > 1
    y = {"title": {"text": title}, **axis} if by_capacity else {"title": {"text": title}, **_LINEAR}
    if by_capacity:
        data = _lines(found, metric)
        x: dict[str, Any] = {"type": "log", "title": {"text": "capacity (tokens)"}, "tickformat": "~s"}
    else:
        data = [_bars(found, metric)]
        x = {"type": "category"}
    return Figure(
        name=f"compare-{metric.replace('_', '-')}",
        title=title,
        caption="Median over the seeds; the bars of each point reach from the smallest to the largest. "
        "Colour: eviction policy, dash: queue policy."
        if by_capacity
        else "Median over the seeds; the thin bars reach from the smallest to the largest.",
        data=data,
        layout={"xaxis": x, "yaxis": y, "hovermode": "closest"},
        height_px=420,
    )


def _lines(found: Comparison, metric: str) -> list[dict[str, Any]]:
    grid, data = found.grid, []
    for i, eviction in enumerate(grid.evictions):
        for j, policy in enumerate(grid.policies):
            mine = [each for each in found.groups if (each.eviction, each.policy) == (eviction, policy)]
            color = _COLORS[i % len(_COLORS)]
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": plain(f"{eviction} · {policy}"),
                    "line": {"color": color, "width": 2, "dash": _DASHES[j % len(_DASHES)]},
                    "marker": {"color": color, "size": 6},
                    **_points(mine, metric, [group.capacity_tokens for group in mine]),
                }
            )
    return data


def _bars(found: Comparison, metric: str) -> dict[str, Any]:
    names = [plain(_name(group)) for group in found.groups]
    colors = [_COLORS[found.grid.evictions.index(each.eviction) % len(_COLORS)] for each in found.groups]
    return {
        "type": "bar",
        "marker": {"color": colors, "line": {"width": 0}},
        **_points(found.groups, metric, names),
    }


def _points(groups: list[Group], metric: str, x: list[Any]) -> dict[str, Any]:
    known = [(place, each) for place, group in zip(x, groups, strict=True) if (each := group.metrics[metric])]
    show = _COLUMNS[metric][1]
    return {
        "x": [place for place, _ in known],
        "y": [tidy(each.median) for _, each in known],
        "text": [_over_seeds(each, show, between=", ") for _, each in known],
        "textposition": "none",
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [tidy(each.high - each.median) for _, each in known],
            "arrayminus": [tidy(each.median - each.low) for _, each in known],
            "thickness": 1,
            "width": 3,
            "color": "$quiet",
        },
        "hovertemplate": "%{x:,}: %{text}",
    }
