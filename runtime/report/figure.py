"""What all plots share: the Plotly figure as plain data, roles of runs, axes of time.

A figure is the JSON that Plotly.js draws. Colours are roles ("$cache") until the page is opened.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runtime.report.palette import OTHER_ROLES
from runtime.result import BASELINE_LABEL, CACHE_LABEL, RunResult, Times

MAX_POINTS: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One plot with its words.

    Attributes:
        name: Short identifier, unique on the page; the HTML id derives from it.
        title: Heading of the plot.
        caption: What it shows and how to read it.
        data: Plotly traces.
        layout: Plotly layout, without fonts and theme.
        height_px: Height on the page.
        wide: Whether it takes the whole width.
    """

    name: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    height_px: int = 320
    wide: bool = False


def roles(labels: Iterable[str]) -> dict[str, str]:
    """Colour role of each run, by label."""
    found, others = {}, 0
    for label in labels:
        if label == BASELINE_LABEL:
            found[label] = "baseline"
        elif label == CACHE_LABEL:
            found[label] = "cache"
        else:
            found[label] = OTHER_ROLES[others % len(OTHER_ROLES)]
            others += 1
    return found


def line_style(role: str) -> dict[str, Any]:
    """Line of a run in its own colour."""
    return {"color": f"${role}", "width": 2}


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The unit of the time axes of a page, and what time it is.

    Attributes:
        name: "s", "min" or "h".
        seconds: Its length.
        longest_s: Where each axis ends, so that runs of different length can be compared.
        times: Where times come from.
    """

    name: str
    seconds: float
    longest_s: float
    times: Times = "simulated"

    def of(self, times_s: Iterable[float]) -> list[float]:
        """Seconds in this unit, as an axis needs them."""
        return [tidy(time_s / self.seconds) for time_s in times_s]

    def axis(self) -> dict[str, Any]:
        """An x axis that says whether its time is simulated or measured."""
        return {
            "title": {"text": f"{self.times} time ({self.name})"},
            "range": [0, tidy(max(self.longest_s, 1e-6) / self.seconds)],
            "zeroline": False,
        }


def time_unit(runs: Sequence[RunResult], times: Times = "simulated") -> TimeUnit:
    """The unit and length of axis that suit the longest of the runs."""
    longest_s = max((run.makespan_s for run in runs), default=0.0)
    if longest_s >= 6 * 3600:
        return TimeUnit("h", 3600.0, longest_s, times)
    name, length = ("min", 60.0) if longest_s >= 600 else ("s", 1.0)
    return TimeUnit(name, length, longest_s, times)


def tidy(value: float) -> float:
    """Six significant digits: more than any screen shows, at half the bytes."""
    return float(f"{value:.6g}")


def plain(text: str) -> str:
    """Text from outside as Plotly shows it literally, tags and all."""
    return html.escape(text, quote=False)
