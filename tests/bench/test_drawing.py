import xml.etree.ElementTree as ET

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
    assert {"Cost & size", "size", "time [us]", "ours", "theirs", "limit"} <= set(texts)
    assert len(drawn) < 100_000


def test_same_picture_gives_the_same_bytes():
    assert draw(PICTURE) == draw(PICTURE)
