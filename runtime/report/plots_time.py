"""What changed while the run went on: hit rate, pages by state, waiting and running requests."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from runtime.report.figure import (
    MAX_POINTS,
    Figure,
    TimeUnit,
    line_style,
    plain,
    roles,
    tidy,
    time_unit,
)
from runtime.report.thin import intervals
from runtime.result import RunResult, TimelineSample, Times

_WINDOWS: Final = 80
_PAGE_STATES: Final[tuple[tuple[str, Callable[[TimelineSample], int]], ...]] = (
    ("locked", lambda sample: sample.locked_pages),
    ("evictable", lambda sample: sample.evictable_pages),
    ("private", lambda sample: sample.private_pages),
    ("free", lambda sample: sample.free_pages),
)


def hit_rate_figures(runs: Sequence[RunResult], times: Times = "simulated") -> list[Figure]:
    """Hit rate over time of the runs that matched anything; none if none did."""
    hits = [run for run in runs if run.timeline and run.timeline[-1].matched_tokens]
    if not hits:
        return []
    unit, role_of, data = time_unit(runs, times), roles(run.label for run in runs), []
    for run in hits:
        color = f"${role_of[run.label]}"
        windows = _windowed(run.timeline)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(f"{run.label}: window"),
                "x": unit.of(time_s for time_s, _ in windows),
                "y": [share for _, share in windows],
                "line": {"color": color, "width": 1.25, "dash": "dot"},
                "connectgaps": False,
                "hovertemplate": "%{y:.1%}",
            }
        )
        ends = [group[-1] for group in intervals(run.timeline, MAX_POINTS)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(f"{run.label}: so far"),
                "x": unit.of(sample.time_s for sample in ends),
                "y": [_share(sample.matched_tokens, sample.prompt_tokens) for sample in ends],
                "line": {"color": color, "width": 2.5},
                "hovertemplate": "%{y:.1%}",
            }
        )
    layout = {
        "xaxis": unit.axis(),
        "yaxis": {
            "title": {"text": "hit rate"},
            "tickformat": ".0%",
            "range": [0, 1.02],
            "zeroline": False,
        },
    }
    return [
        Figure(
            name="hit-rate",
            title="Hit rate over time",
            caption="Matched prompt tokens divided by prompt tokens at first admissions: since the "
            f"start (solid), and in each of {_WINDOWS} windows of equal length (dotted; a gap "
            "where nothing was admitted).",
            data=data,
            layout=layout,
            height_px=300,
            wide=True,
        )
    ]


def page_figures(runs: Sequence[RunResult], times: Times = "simulated") -> list[Figure]:
    """Pages by state over time, one stacked figure for each run with a timeline."""
    unit = time_unit(runs, times)
    return [_pages(run, number, unit) for number, run in enumerate(runs) if run.timeline]


def _pages(run: RunResult, number: int, unit: TimeUnit) -> Figure:
    ends = [group[-1] for group in intervals(run.timeline, MAX_POINTS)]
    totals = [sum(pages_of(sample) for _, pages_of in _PAGE_STATES) for sample in ends]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": state,
            "x": unit.of(sample.time_s for sample in ends),
            "y": [pages_of(sample) for sample in ends],
            "stackgroup": "pages",
            "line": {"width": 0, "color": f"${state}", "shape": "hv"},
            "fillcolor": f"${state}",
            "hovertemplate": "%{y:,}",
        }
        for state, pages_of in _PAGE_STATES
    ]
    layout = {
        "xaxis": unit.axis(),
        "yaxis": {"title": {"text": "pages"}, "tickformat": "~s", "range": [0, max(totals)]},
        "legend": {"traceorder": "reversed"},
    }
    return Figure(
        name=f"pages-{number}",
        title=f"Pages by state over time: {run.label}",
        caption="Every page is free, private to one live sequence, cached and evictable, or cached "
        "and locked by a live sequence. Together they are the pool.",
        data=data,
        layout=layout,
    )


def queue_figures(runs: Sequence[RunResult], times: Times = "simulated") -> list[Figure]:
    """Waiting and running requests over time, all runs in each figure; none without timelines."""
    if not any(run.timeline for run in runs):
        return []
    unit = time_unit(runs, times)
    return [
        _gauge(runs, unit, "waiting", "Waiting requests over time", lambda sample: sample.waiting),
        _gauge(runs, unit, "running", "Running requests over time", lambda sample: sample.running),
    ]


def _gauge(
    runs: Sequence[RunResult],
    unit: TimeUnit,
    name: str,
    title: str,
    value: Callable[[TimelineSample], int],
) -> Figure:
    role_of = roles(run.label for run in runs)
    data = []
    for run in runs:
        groups = intervals(run.timeline, MAX_POINTS)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": plain(run.label),
                "x": unit.of(group[0].time_s for group in groups),
                "y": [max(map(value, group)) for group in groups],
                "line": line_style(role_of[run.label]) | {"shape": "hv", "width": 1.5},
                "hovertemplate": "%{y:,}",
            }
        )
    layout: dict[str, Any] = {
        "xaxis": unit.axis(),
        "yaxis": {"title": {"text": f"{name} requests"}, "rangemode": "tozero"},
    }
    return Figure(
        name=name,
        title=title,
        caption=f"Requests {name}; where a run has more than {MAX_POINTS} samples, the most in "
        "each interval.",
        data=data,
        layout=layout,
    )


def _windowed(timeline: Sequence[TimelineSample]) -> list[tuple[float, float | None]]:
    """Hit rate of each window at its end, None where no prompt was admitted."""
    before, windows = timeline[0], []
    for group in intervals(timeline, _WINDOWS):
        end = group[-1]
        matched = end.matched_tokens - before.matched_tokens
        windows.append((end.time_s, _share(matched, end.prompt_tokens - before.prompt_tokens)))
        before = end
    return windows


def _share(part: int, whole: int) -> float | None:
    return tidy(part / whole) if whole else None
