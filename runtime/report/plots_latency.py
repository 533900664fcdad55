"""How long the first token took: its distribution, with and without the cache."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

from runtime.metrics import ttft_s
from runtime.report.figure import MAX_POINTS, Figure, line_style, plain, roles, tidy
from runtime.report.formatting import duration
from runtime.report.thin import ranks
from runtime.result import RunResult, Times

_BINS: Final = 40
_SHORTEST_S: Final = 1e-6


def ttft_figures(runs: Sequence[RunResult], times: Times = "simulated") -> list[Figure]:
    """Cumulative distribution and histogram of the TTFT; none if no request got a token."""
    values = {
        run.label: sorted(max(_SHORTEST_S, ttft) for ttft in map(ttft_s, run.requests) if ttft is not None)
        for run in runs
    }
    values = {label: ttfts for label, ttfts in values.items() if ttfts}
    if not values:
        return []
    axis = _time_axis([edge for ttfts in values.values() for edge in (ttfts[0], ttfts[-1])], times)
    return [_cumulative(values, axis, times), _histogram(values, axis)]


def _cumulative(values: dict[str, list[float]], axis: dict[str, Any], times: Times) -> Figure:
    role_of = roles(values)
    data = []
    for label, ttfts in values.items():
        places = ranks(len(ttfts), MAX_POINTS)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(label),
                "x": [tidy(ttfts[place]) for place in places],
                "y": [tidy((place + 1) / len(ttfts)) for place in places],
                "text": [duration(ttfts[place]) for place in places],
                "line": line_style(role_of[label]) | {"shape": "hv"},
                "hovertemplate": "%{y:.1%} of requests within %{text}",
            }
        )
    layout = {
        "xaxis": axis,
        "yaxis": {"title": {"text": "share of requests"}, "tickformat": ".0%", "range": [0, 1.02]},
        "hovermode": "closest",
    }
    return Figure(
        name="ttft-cdf",
        title="Time to first token, cumulative",
        caption=f"Share of requests whose first token came within a {times} time, queueing "
        "included. The further left a curve, the faster. Logarithmic time axis.",
        data=data,
        layout=layout,
    )


def _histogram(values: dict[str, list[float]], axis: dict[str, Any]) -> Figure:
    role_of = roles(values)
    low = math.log10(min(ttfts[0] for ttfts in values.values()))
    high = max(math.log10(max(ttfts[-1] for ttfts in values.values())), low + 0.1)
    edges = [10 ** (low + (high - low) * i / _BINS) for i in range(_BINS + 1)]
    data = []
    for label, ttfts in values.items():
        below = [0, *(bisect_right(ttfts, edge) for edge in edges[1:-1]), len(ttfts)]
        shares = [(below[i + 1] - below[i]) / len(ttfts) for i in range(_BINS)]
        between = [f"{duration(edges[i])} to {duration(edges[i + 1])}" for i in range(_BINS)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(label),
                "x": [tidy(edge) for edge in edges],
                "y": [tidy(share) for share in [*shares, 0.0]],
                "text": [*between, ""],
                "line": line_style(role_of[label]) | {"shape": "hv", "width": 1.5},
                "fill": "tozeroy",
                "fillcolor": f"${role_of[label]}-fill",
                "hovertemplate": "%{y:.1%} of requests took %{text}",
            }
        )
    layout = {
        "xaxis": axis,
        "yaxis": {
            "title": {"text": "share of requests"},
            "tickformat": ".0%",
            "rangemode": "tozero",
        },
        "hovermode": "closest",
    }
    return Figure(
        name="ttft-histogram",
        title="Time to first token, histogram",
        caption=f"The same requests in {_BINS} intervals of equal width on a logarithmic axis.",
        data=data,
        layout=layout,
    )


def _time_axis(ends_s: Sequence[float], times: Times) -> dict[str, Any]:
    """A logarithmic axis from the shortest to the longest, with ticks that name their unit."""
    low, high = math.log10(min(ends_s)), math.log10(max(ends_s))
    margin = max(0.05, (high - low) * 0.03)
    ticks = [10.0**power for power in range(math.floor(low - margin), math.ceil(high + margin) + 1)]
    if high - low < 2:
        ticks = [tick * factor for tick in ticks for factor in (1, 2, 5)]
    return {
        "type": "log",
        "title": {"text": f"{times} time to first token"},
        "range": [low - margin, high + margin],
        "tickvals": [tidy(tick) for tick in ticks],
        "ticktext": [_tick(tick) for tick in ticks],
        "zeroline": False,
    }


def _tick(value_s: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if value_s >= size * 0.999:
            return f"{value_s / size:,.0f} {unit}"
    return f"{value_s / 1e-6:,.3g} µs"
