import pytest

from runtime.metrics import summarise
from runtime.report import formatting
from runtime.report.rows import GROUPS, cells
from runtime.report.tables import counter_rows, error_rows, kind_rows, miss_rows, settings
from tests.unit.runtime.sample_result import record, run

X, MINUS, DASH = "\N{MULTIPLICATION SIGN}", "\N{MINUS SIGN}", "\N{EN DASH}"


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0, "0 s"),
        (8.5e-7, "0.85 µs"),
        (0.00085, "850 µs"),
        (0.0412, "41.2 ms"),
        (0.9996, "1.00 s"),
        (1.934, "1.93 s"),
        (75.0, "75.0 s"),
        (852.0, "14.2 min"),
        (86_400.0, "24.0 h"),
    ],
)
def test_durations_have_three_digits_and_a_unit(value_s: float, text: str):
    assert formatting.duration(value_s) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (7, "7"), (3.84, "3.8"), (103.7, "104"), (1_234_567, "1,234,567")]
)
def test_counts_have_separators(value: float, text: str):
    assert formatting.count(value) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.226, f"{MINUS}77.4 %"), (1.0, "+0.0 %"), (1.36, "+36.0 %"), (12.3, f"12.3{X}")],
)
def test_changes_are_in_percent_up_to_tenfold(ratio: float, text: str):
    assert formatting.change(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.00976, "0.00976"), (0.5, "0.5"), (9.996, "10.0"), (4745.2, "4,745")]
)
def test_rates_have_three_digits(value: float, text: str):
    assert formatting.rate(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        ("83.8 %", "87.6 %", f"83.8{DASH}87.6 %"),
        ("980 ms", "1.20 s", f"980 ms{DASH}1.20 s"),
        ("1", "2", f"1{DASH}2"),
    ],
)
def test_a_span_says_a_unit_once_if_both_ends_have_it(low: str, high: str, text: str):
    assert formatting.span(low, high) == text


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("TTFT p50", {"first_token_s": 1.6}, "better"),
        ("TTFT p50", {"first_token_s": 3.0}, "worse"),
        ("TTFT p50", {"first_token_s": 2.0}, None),
        ("hit rate", {"matched_tokens": 80}, "better"),
        ("hit rate", {"matched_tokens": 16}, "worse"),
        ("prompt tokens", {"prompt_tokens": 500}, None),
    ],
)
def test_a_verdict_knows_which_direction_is_better(name: str, value: dict, verdict: str | None):
    row = next(row for rows in GROUPS.values() for row in rows if row.name == name)
    base, other = summarise(run([record()])), summarise(run([record(**value)]))
    assert cells(row, [base, other])[1].verdict == verdict


def test_a_ratio_to_zero_is_a_dash_but_has_a_verdict():
    row = next(row for row in GROUPS["Tokens"] if row.name == "hit rate")
    base, other = summarise(run([record(matched_tokens=0)])), summarise(run())
    cell = cells(row, [base, other])[1]
    assert (cell.ratio, cell.change, cell.verdict) == (DASH, "", "better")


def test_names_of_rows_are_unique():
    names = [row.name for rows in GROUPS.values() for row in rows]
    assert len(names) == len(set(names))


def test_settings_are_flat_sorted_and_complete():
    config = {"b": {"y": [1, 2.5, "z"], "x": True}, "a": None, "c": [{"k": 1}], "d": {}, "e": []}
    assert settings(config) == [
        ("a", "null"),
        ("b.x", "true"),
        ("b.y", "1, 2.5, z"),
        ("c", '[{"k":1}]'),
        ("d", DASH),
        ("e", DASH),
    ]


def test_settings_of_nothing_are_none():
    assert settings({}) == []


def test_large_settings_have_separators():
    assert settings({"a": 9.89e14, "b": 65536}) == [("a", "989,000,000,000,000"), ("b", "65,536")]


def test_one_kind_needs_no_table():
    assert kind_rows([run()]) == []


def test_kinds_that_only_one_run_has_are_dashes_in_the_other():
    one, both = run([record()]), run([record(), record(kind="follow-up")])
    rows = kind_rows([one, both])
    assert [(row.kind, row.hit_rates) for row in rows] == [
        ("first", ["64.0 %", "64.0 %"]),
        ("follow-up", [DASH, "64.0 %"]),
    ]


def test_misses_are_sorted_by_tokens_over_all_runs():
    rows = miss_rows([summarise(run([record()]))])
    assert rows == [
        ("matched", [("64", "64.0 %")]),
        ("never seen", [("35", "35.0 %")]),
        ("last token", [("1", "1.0 %")]),
    ]


def test_errors_are_counted_by_run_status_and_text():
    lost = record(status="failed", error="boom")
    rows = error_rows([run([record(), lost, lost, record(status="unfinished")])])
    assert [(row.status, row.error, row.requests) for row in rows] == [
        ("failed", "boom", "2"),
        ("unfinished", "", "1"),
    ]


def test_errors_beyond_the_table_are_summed_up():
    rows = error_rows([run([record(status="failed", error=f"e{i:02}") for i in range(20)])])
    assert (rows[-1].error, rows[-1].requests) == ("8 further errors, see result.json", "8")
    assert len(rows) == 13


def test_counters_of_one_run_only_are_dashes_in_the_other():
    assert counter_rows([run(counters={"a": 1}), run(counters={"b": 2000})]) == [
        ("a", ["1", DASH]),
        ("b", [DASH, "2,000"]),
    ]
