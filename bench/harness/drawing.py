"""Pictures as SVG. The same picture gives the same bytes."""

from io import StringIO

from bench.harness.report import Picture
from bench.harness.table import number

_MARKERS = "osD^v<>"


def draw(picture: Picture) -> str:
    """The picture, with the last value of each line."""
    import matplotlib as mpl  # takes a second, and most runs draw nothing
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "bench", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.add_subplot()
        xscale, yscale = ("log" if axis in picture.log else "linear" for axis in "xy")
        axes.set(xscale=xscale, yscale=yscale, title=picture.title, xlabel=picture.x, ylabel=picture.y)
        for marker, (name, points) in zip(_MARKERS, picture.lines.items(), strict=False):
            sizes, values = zip(*points, strict=True)
            axes.plot(sizes, values, marker=marker, label=name)
            axes.annotate(number(values[-1]), (sizes[-1], values[-1]), (6, -3), textcoords="offset points")
        for name, points in picture.promises.items():
            axes.plot(*zip(*points, strict=True), color="gray", linestyle="dashed", linewidth=1, label=name)
        for name, level in picture.levels.items():
            axes.axhline(level, color="gray", linestyle="dashed", linewidth=1, label=name)
        axes.margins(x=0.12)
        axes.grid(visible=True, which="both", linewidth=0.3)
        axes.legend()
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()
