from bench.harness.environment import describe
from bench.harness.markdown import page
from bench.harness.report import Bound, Figure, Limit, Report


def test_page_names_the_run_and_shows_every_figure_with_its_verdict():
    figure = Figure(
        name="peek",
        unit="us",
        samples={"cpu": [1.0, 2.0, 3.0], "wall": [5.0]},
        bound=Bound(name="floor", samples={"cpu": [1.0], "wall": [1.0]}),
        limits=(Limit(statistic="max", factor=4.0),),
    )
    text = page(describe(), "size full", [Report(name="peek", question="how long?", figures=(figure,))])
    assert "* size full" in text
    assert "## peek: how long?" in text
    assert "| peek [us] | cpu | 1 | 2 | 2 | 3 | 3 | floor: 1 | 2.00 | max <= 4 x bound: holds |" in text
    assert "max <= 4 x bound: **missed**" in text


def test_failed_benchmark_shows_its_last_line():
    text = page(describe(), "", [Report(name="x", question="", error="Traceback\nWrongResult: pages")])
    assert "Failed: WrongResult: pages" in text
