import re
import xml.etree.ElementTree as ET

import pytest

from bench.harness.drawing import draw
from bench.harness.report import Picture

PICTURE = Picture(
    name="cost",
    title="Cost & size",
    x="size",
    y="time [us]",
    lines={"ours": [(1, 2), (10, 2.5), (100, 3)], "theirs": [(1, 2), (100, 200)]},
    levels={"limit": 100},
)


def test_picture_is_small_valid_svg_with_its_words():
    drawn = draw(PICTURE)
    texts = [element.text for element in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"Cost & size", "size", "time [us]", "ours (last: 3)", "theirs (last: 200)", "limit"} <= set(texts)
    assert len(drawn) < 100_000


def test_same_picture_gives_the_same_bytes():
    assert draw(PICTURE) == draw(PICTURE)


def picture_of(num_lines: int, num_points: int = 3) -> Picture:
    lines = {f"line {k}": [(10.0**at, k + 1.0) for at in range(num_points)] for k in range(num_lines)}
    return Picture(name="n", title="t", x="x", y="y", lines=lines, promises={"p": [(1, 1), (100, 2)]})


def texts_of(drawn: str) -> list[str | None]:
    return [element.text for element in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("num_lines", [1, 13])
def test_every_line_is_in_the_legend_with_its_last_value(num_lines):
    names = {text for text in texts_of(draw(picture_of(num_lines))) if text and text.startswith("line")}
    assert names == {f"line {k} (last: {k + 1})" for k in range(num_lines)}


def test_promises_and_levels_have_dashes_of_their_own():
    lines = {"ours": [(1.0, 1.0), (10.0, 2.0)]}
    promises = {"flat": [(1.0, 1.0), (10.0, 1.0)], "linear": [(1.0, 1.0), (10.0, 10.0)]}
    drawn = draw(
        Picture(name="n", title="t", x="x", y="y", lines=lines, promises=promises, levels={"limit": 5})
    )
    assert len(set(re.findall(r"stroke-dasharray: ([^;\"]+)", drawn))) == 3


def test_ticks_are_the_measured_sizes_where_these_are_few():
    lines = {"ours": [(1.0, 1.0), (48.0, 2.0), (2_048.0, 3.0)]}
    assert {"1", "48", "2,048"} <= set(
        texts_of(draw(Picture(name="n", title="t", x="x", y="y", lines=lines)))
    )
    lines = {"curve": [(1e5 * 1.1**k, k + 1.0) for k in range(60)]}
    assert {"1 M", "10 M"} <= set(texts_of(draw(Picture(name="n", title="t", x="x", y="y", lines=lines))))


def test_axis_of_nearly_equal_costs_spans_a_decade():
    lines = {"ours": [(1.0, 24.0), (10.0, 26.0)]}
    texts = set(texts_of(draw(Picture(name="n", title="t", x="x", y="y", lines=lines))))
    assert {"10", "20", "50"} <= texts
