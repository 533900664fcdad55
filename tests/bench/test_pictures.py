"""What each benchmark draws, at its smallest size."""

import pytest

from bench.benchmarks import BENCHMARKS
from bench.harness.drawing import draw
from bench.harness.report import Picture
from bench.options import Options

PICTURES = {
    "peek": {"peek_tokens", "peek_leaves"},
    "deep_path": {"deep_path"},
    "publish": {"publish_pages", "publish_leaves"},
    "evict_insert": {"evict_insert"},
    "lock": {"lock"},
    "replay": {"replay_hit_rate"},
    "queue_dispatch": {"queue_dispatch"},
    "idle_schedule": {"idle_schedule_unchanged", "idle_schedule_retried"},
}


@pytest.mark.parametrize("name", PICTURES)
def test_costs_are_drawn_by_size_beside_what_was_promised(name):
    report = BENCHMARKS[name](Options(size="tiny"))
    assert {picture.name for picture in report.pictures} == PICTURES[name]
    for picture in report.pictures:
        assert picture.promises or picture.levels
        assert draw(picture).count("(last: ") == len(picture.lines)
        if picture.log == "xy":
            require_same_sizes(picture)


def require_same_sizes(picture: Picture) -> None:
    """All lines and promises of a log-log picture have the same sizes, more than one, and values above 0."""
    lines = [*picture.lines.values(), *picture.promises.values()]
    assert len({tuple(size for size, _ in points) for points in lines}) == 1
    assert all(len(points) > 1 and all(value > 0 for _, value in points) for points in lines)
