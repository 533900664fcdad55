"""Pictures as SVG. The same picture gives the same bytes."""

from io import StringIO
from itertools import cycle
from math import log10
from typing import TYPE_CHECKING

from bench.harness.report import Picture
from bench.harness.table import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^v<>ph*XP"
_DASHES = ((0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2, 1, 2)))
_MOST_MARKED = 32
_MOST_TICKS = 9
_LEGEND_COLUMNS = 2
_LEAST_DECADES = 1.0
"""What a logarithmic axis spans at least: on a shorter one noise would look like growth."""


def draw(picture: Picture) -> str:
    """The picture, with the last value of each line in the legend."""
    import matplotlib as mpl  # takes a second, and most runs draw nothing

    with mpl.rc_context({"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 10}):
        drawn = StringIO()
        _drawn(picture).savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def _drawn(picture: Picture) -> "Figure":
    from matplotlib.figure import Figure

    num_rows = -(-(len(picture.lines) + len(picture.promises) + len(picture.levels)) // _LEGEND_COLUMNS)
    figure = Figure(figsize=(7, 4 + 0.22 * num_rows), layout="constrained")
    axes = figure.add_subplot()
    xscale, yscale = ("log" if axis in picture.log else "linear" for axis in "xy")
    axes.set(xscale=xscale, yscale=yscale, title=picture.title, xlabel=picture.x, ylabel=picture.y)
    _draw_lines(axes, picture)
    _draw_promises(axes, picture)
    _set_ticks(axes, picture)
    axes.grid(visible=True, which="major", linewidth=0.3)
    figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS, fontsize="small")
    return figure


def _draw_lines(axes: "Axes", picture: Picture) -> None:
    for place, ((name, points), marker) in enumerate(
        zip(picture.lines.items(), cycle(_MARKERS), strict=False)
    ):
        sizes, values = zip(*points, strict=True)
        marker = "" if len(points) > _MOST_MARKED else marker
        label = f"{name} (last: {number(values[-1])})"
        axes.plot(sizes, values, color=f"C{place}", marker=marker, markersize=5, label=label)


def _draw_promises(axes: "Axes", picture: Picture) -> None:
    """Promises and levels behind the lines, each with dashes of its own."""
    dashes = cycle(_DASHES)
    for name, points in picture.promises.items():
        sizes, values = zip(*points, strict=True)
        axes.plot(sizes, values, color="0.35", linestyle=next(dashes), linewidth=1.1, label=name, zorder=1)
    for name, level in picture.levels.items():
        axes.axhline(level, color="0.35", linestyle=next(dashes), linewidth=1.1, label=name, zorder=1)


def _set_ticks(axes: "Axes", picture: Picture) -> None:
    """Numbers instead of powers; the measured sizes where they are few."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    plain = FuncFormatter(lambda value, _: _tick(value))
    for axis, name in ((axes.xaxis, "x"), (axes.yaxis, "y")):
        axis.set_major_formatter(plain)
        if name in picture.log:
            low, high = _at_least(*axis.get_view_interval())
            axis.set_view_interval(low, high, ignore=True)
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,)))
            axis.set_minor_formatter(NullFormatter())
    sizes = sorted({size for points in picture.lines.values() for size, _ in points})
    if "x" in picture.log and len(sizes) <= _MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(sizes))
        axes.xaxis.set_minor_locator(NullLocator())


def _at_least(low: float, high: float) -> tuple[float, float]:
    """The same span of a logarithmic axis, or a longer one around it."""
    lacking = max(0.0, _LEAST_DECADES - log10(high / low)) / 2
    return low / 10**lacking, high * 10**lacking


def _tick(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
