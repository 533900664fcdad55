from bench.harness.markdown import section
from bench.harness.report import Bound, Figure, Limit, Report


def test_section_shows_every_figure_with_its_verdict():
    figure = Figure(
        name="peek",
        unit="us",
        samples={"cpu": [1.0, 2.0, 3.0], "wall": [5.0]},
        bound=Bound(name="floor", samples={"cpu": [1.0], "wall": [1.0]}),
        limits=(Limit(statistic="max", factor=4.0),),
    )
    text = "\n".join(section(Report(name="peek", question="how long?", figures=(figure,)), ["above"]))
    assert text.startswith("## peek: how long?\n\nabove\n| figure")
    assert "| peek [us] | cpu | 1 | 2 | 2 | 3 | 3 | floor: 1 | 2.00 | max <= 4 x bound: holds |" in text
    assert "max <= 4 x bound: **missed**" in text


def test_failed_benchmark_shows_its_last_line():
    lines = section(Report(name="x", question="", error="Traceback\nWrongResult: pages"))
    assert "Failed: WrongResult: pages" in lines
