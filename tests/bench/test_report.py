import pytest
from rich.console import Console

from bench.harness.report import Bound, Figure, Limit, Report, percentile, verdicts
from bench.harness.table import number, render


def figure(*samples: float, bound: float | None = None, limits: tuple[Limit, ...] = ()) -> Figure:
    held_against = None if bound is None else Bound(name="floor", samples={"cpu": [bound]})
    return Figure(name="peek", unit="us", samples={"cpu": list(samples)}, bound=held_against, limits=limits)


def shown(report: Report) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render(report))
    return capture.get()


def test_percentile_is_a_sample():
    samples = [float(value) for value in range(1, 101)]
    assert percentile(samples, 99) == 99
    assert percentile(samples, 1) == 1
    assert percentile([7.0], 99) == 7


@pytest.mark.parametrize(("value", "holds"), [(9.0, True), (9.1, False)])
def test_limit_with_a_bound_is_factor_times_bound_plus_allowance(value, holds):
    limit = Limit(statistic="median", factor=3.0, plus=3.0)
    assert figure(value, bound=2.0).holds(limit, "cpu") is holds


@pytest.mark.parametrize(("value", "holds"), [(0.1, True), (0.05, False), (0.3, False)])
def test_limit_with_a_lower_end_wants_the_value_between(value, holds):
    limit = Limit(statistic="median", plus=0.2, low=0.08)
    assert figure(value).holds(limit, "cpu") is holds


def test_ratio_compares_medians():
    assert figure(1.0, 4.0, 100.0, bound=2.0).ratio("cpu") == 2.0
    assert figure(1.0).ratio("cpu") is None
    assert figure(1.0, bound=0.0).ratio("cpu") is None


def test_missed_limit_is_shown_and_listed():
    limits = (Limit(statistic="mean", plus=6.0), Limit(statistic="max", plus=100.0))
    report = Report(name="evict", question="how long?", figures=(figure(5.0, 8.0, limits=limits),))
    assert [verdict["holds"] for verdict in verdicts(report)] == [False, True]
    text = shown(report)
    assert "mean <= 6: MISSED" in text
    assert "max <= 100: holds" in text


def test_table_shows_brackets_of_names_literally():
    assert "[red]" in shown(Report(name="x", question="[red]?", figures=(figure(1.0),)))


def test_failed_benchmark_shows_why():
    assert "WrongResult: pages" in shown(Report(name="x", question="", error="WrongResult: pages"))


@pytest.mark.parametrize(
    ("value", "text"), [(1234567.8, "1,234,568"), (0.123456, "0.12346"), (1.23456, "1.235"), (12.0, "12")]
)
def test_numbers_have_four_significant_digits_or_five_below_one(value, text):
    assert number(value) == text
