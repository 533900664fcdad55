"""Making long series short enough to draw, always in the same way.

Nothing is sampled at random: intervals of equal time, or ranks at equal distances.
"""

from collections.abc import Sequence

from runtime.result import TimelineSample


def intervals(timeline: Sequence[TimelineSample], max_intervals: int) -> list[Sequence[TimelineSample]]:
    """Cut a timeline into runs of samples, none empty, each within one interval of equal length.

    Returns:
        One sample an interval where there are no more samples than `max_intervals`; otherwise at
        most `max_intervals` runs. Together they are the timeline.

    Complexity:
        O(n) for n samples.
    """
    if len(timeline) <= max_intervals:
        return [timeline[i : i + 1] for i in range(len(timeline))]
    start_s, span_s = timeline[0].time_s, timeline[-1].time_s - timeline[0].time_s
    cuts, last = [0], 0
    for number, sample in enumerate(timeline):
        place = int((sample.time_s - start_s) / span_s * max_intervals) if span_s else 0
        place = min(place, max_intervals - 1)
        if place != last:
            cuts.append(number)
            last = place
    ends = [*cuts[1:], len(timeline)]
    return [timeline[start:end] for start, end in zip(cuts, ends, strict=True) if end > start]


def ranks(num_values: int, max_points: int) -> list[int]:
    """Positions of at most `max_points` of `num_values` ordered values, both ends included.

    Raises:
        ValueError: `max_points` is less than 2.
    """
    if max_points < 2:
        raise ValueError(f"{max_points} points cannot include the first and the last")
    if num_values <= max_points:
        return list(range(num_values))
    return [i * (num_values - 1) // (max_points - 1) for i in range(max_points)]
