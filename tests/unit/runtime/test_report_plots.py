import json
import re
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.metrics import summarise
from runtime.report.figure import MAX_POINTS, Figure, plain, time_unit
from runtime.report.palette import THEMES
from runtime.report.plots_latency import ttft_figures
from runtime.report.plots_time import hit_rate_figures, page_figures, queue_figures
from runtime.report.plots_tokens import parts, token_figures
from runtime.report.plots_tree import tree_figures
from runtime.report.thin import intervals, ranks
from runtime.result import TreeBox
from tests.unit.runtime.sample_result import plausible_result, record, run, sample

BOX = TreeBox(depth_tokens=0, num_tokens=32, locked=False, children=[], label="a")


def all_figures(num_requests: int = 100, num_samples: int = 50) -> list[Figure]:
    runs = plausible_result(num_requests, num_samples).runs
    return [
        *ttft_figures(runs),
        *token_figures([summarise(each) for each in runs]),
        *hit_rate_figures(runs),
        *queue_figures(runs),
        *page_figures(runs),
        *tree_figures(runs),
    ]


def painted(value: Any, theme: str) -> Any:
    text = json.dumps(value)
    return json.loads(re.sub(r'"\$([\w-]+)"', lambda m: f'"{THEMES[theme][m[1]]}"', text))


@pytest.mark.parametrize("theme", THEMES)
def test_plotly_accepts_every_figure_in_every_theme(theme: str):
    for figure in all_figures():
        go.Figure(data=painted(figure.data, theme), layout=painted(figure.layout, theme))


def test_both_themes_name_the_same_roles():
    assert list(THEMES["light"]) == list(THEMES["dark"])


def luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("front", "behind", "least"),
    [
        ("text", "page", 7),
        ("text", "card", 7),
        ("quiet", "page", 4.5),
        ("quiet", "card", 4.5),
        ("link", "page", 4.5),
        ("good", "card", 4.5),
        ("bad", "card", 4.5),
        ("warn", "warn-card", 4.5),
        ("cache", "card", 3),
        ("baseline", "card", 3),
        ("other-1", "card", 3),
        ("other-2", "card", 3),
    ],
)
def test_contrast_is_enough_to_read(theme: str, front: str, behind: str, least: float):
    shades = sorted(luminance(THEMES[theme][role]) for role in (front, behind))
    assert (shades[1] + 0.05) / (shades[0] + 0.05) >= least


def test_no_curve_is_longer_than_promised():
    for figure in all_figures(num_requests=3000, num_samples=3000):
        for trace in figure.data:
            if trace["type"] == "scatter":
                assert len(trace["x"]) == len(trace["y"]) <= MAX_POINTS


def test_a_cumulative_curve_ends_at_all_requests_and_never_falls():
    curve = ttft_figures(plausible_result(3000, 5).runs)[0].data[1]
    assert curve["y"][-1] == 1.0
    assert curve["y"] == sorted(curve["y"])
    assert curve["x"] == sorted(curve["x"])


def test_a_histogram_holds_every_request_that_got_a_token():
    for curve in ttft_figures(plausible_result(300, 5).runs)[1].data:
        assert sum(curve["y"]) == pytest.approx(1.0, abs=1e-4)


def test_a_histogram_of_equal_values_holds_them_all():
    curve = ttft_figures([run([record()] * 5)])[1].data[0]
    assert sum(curve["y"]) == 1.0


def test_a_ttft_of_zero_can_be_drawn_on_a_logarithmic_axis():
    cumulative, _ = ttft_figures([run([record(arrival_s=1.0, first_token_s=1.0)])])
    assert cumulative.data[0]["x"] == [1e-6]


def test_the_hit_rate_is_drawn_so_far_and_by_window():
    timeline = [
        sample(0.0),
        sample(1.0, matched_tokens=10, prompt_tokens=100),
        sample(2.0, matched_tokens=10, prompt_tokens=100),
        sample(3.0, matched_tokens=100, prompt_tokens=200),
    ]
    (figure,) = hit_rate_figures([run(timeline=timeline)])
    window, so_far = figure.data
    assert window["y"] == [None, 0.1, None, 0.9]
    assert so_far["y"] == [None, 0.1, 0.1, 0.5]


def test_a_run_that_matched_nothing_has_no_hit_rate_to_draw():
    assert hit_rate_figures([run(timeline=[sample(0.0), sample(1.0, prompt_tokens=9)])]) == []


def test_stacked_pages_add_up_to_the_pool():
    for figure in page_figures(plausible_result(20, 900).runs):
        assert {sum(column) for column in zip(*(t["y"] for t in figure.data), strict=True)} == {20_000}


def test_a_thinned_queue_keeps_its_peak():
    timeline = [sample(float(i), waiting=77 if i == 1234 else 1) for i in range(5000)]
    waiting, _ = queue_figures([run(timeline=timeline)])
    assert max(waiting.data[0]["y"]) == 77


def test_all_time_axes_end_with_the_longest_run():
    runs = [run(makespan_s=10.0, timeline=[sample(0.0), sample(9.0)]), run(makespan_s=50.0)]
    assert queue_figures(runs)[0].layout["xaxis"]["range"] == [0, 50.0]
    assert page_figures(runs)[0].layout["xaxis"]["range"] == [0, 50.0]


@pytest.mark.parametrize(("makespan_s", "unit"), [(0.0, "s"), (599.0, "s"), (600.0, "min"), (86_400.0, "h")])
def test_the_time_axis_has_a_fitting_unit_and_is_labelled(makespan_s: float, unit: str):
    axis = time_unit([run(makespan_s=makespan_s)]).axis()
    assert axis["title"]["text"] == f"simulated time ({unit})"
    measured = time_unit([run(makespan_s=makespan_s)], "measured").axis()
    assert measured["title"]["text"] == f"measured time ({unit})"


def test_prompt_tokens_add_up_to_the_prompt():
    summary = summarise(run([record(copied_tokens=5, miss={"never_seen": 10})]))
    assert parts(summary) == {
        "matched": 64,
        "copied": 5,
        "never_seen": 10,
        "no reason recorded": 21,
    }


def test_bars_add_up_to_one_for_each_run():
    (figure,) = token_figures([summarise(each) for each in plausible_result(100, 5).runs])
    for shares in zip(*(trace["x"] for trace in figure.data), strict=True):
        assert sum(shares) == pytest.approx(1.0, abs=1e-4)


def test_an_icicle_holds_each_box_once_under_its_parent():
    child = TreeBox(depth_tokens=32, num_tokens=16, locked=True, children=[], label="b")
    root = TreeBox(depth_tokens=0, num_tokens=32, locked=True, children=[child, BOX], label="r")
    (figure,) = tree_figures([run(tree=[root, BOX])])
    trace = figure.data[0]
    assert trace["ids"] == ["0", "0.0", "0.0.0", "0.0.1", "0.1"]
    assert trace["parents"] == ["", "0", "0.0", "0.0", "0"]
    assert trace["values"] == [0, 32, 16, 32, 32]
    assert trace["marker"]["colors"][2] == "$locked"
    assert "80 with all below" in trace["text"][1]


def test_an_icicle_of_a_long_chain_needs_no_recursion():
    box = BOX
    for _ in range(5000):
        box = TreeBox(depth_tokens=0, num_tokens=1, locked=False, children=[box], label="")
    assert len(tree_figures([run(tree=[box])])[0].data[0]["ids"]) == 5002


def test_an_empty_tree_is_not_drawn():
    assert tree_figures([run()]) == []


def test_tags_in_texts_from_outside_reach_plotly_escaped():
    assert plain("<b>&") == "&lt;b&gt;&amp;"


@given(st.lists(st.floats(0, 1e4), max_size=60), st.integers(1, 20))
def test_intervals_are_the_timeline_in_few_pieces(times: list[float], pieces: int):
    timeline = [sample(time) for time in sorted(times)]
    groups = intervals(timeline, pieces)
    assert [each for group in groups for each in group] == timeline
    assert all(groups)
    assert len(groups) <= pieces


@given(st.integers(0, 500), st.integers(2, 40))
def test_ranks_rise_and_include_both_ends(num_values: int, max_points: int):
    found = ranks(num_values, max_points)
    assert found == sorted(set(found))
    assert len(found) <= max_points
    if num_values:
        assert (found[0], found[-1]) == (0, num_values - 1)


def test_fewer_than_two_ranks_are_refused():
    with pytest.raises(ValueError, match="1 points"):
        ranks(10, 1)
