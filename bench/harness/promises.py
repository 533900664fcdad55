"""Promised complexities as lines to draw beside what was measured.

A line is fixed by smaller sizes and foretells the largest, so what grows faster than promised ends above it.
"""

from math import log
from statistics import median

from bench.harness.report import Points, Samples
from bench.harness.timing import CPU


def median_point(size: float, samples: Samples) -> tuple[float, float]:
    """The point of a line: a size, and the median of the CPU times taken there."""
    return size, median(samples[CPU])


def flat(points: Points) -> Points:
    """O(1): what the first point costs."""
    return [(size, points[0][1]) for size, _ in points]


def logarithmic(points: Points) -> Points:
    """O(log n): c * log n through the first point, whose size is > 1."""
    first, cost = points[0]
    return [(size, cost * log(size) / log(first)) for size, _ in points]


def linear(points: Points) -> Points:
    """O(n): a + c * n through the first point and the last but one; c is not below 0."""
    (first, cost), (middle, more) = points[0], points[max(0, len(points) - 2)]
    slope = max(0.0, (more - cost) / (middle - first)) if middle != first else 0.0
    return [(size, cost + slope * (size - first)) for size, _ in points]


def scaled(points: Points, factor: float, plus: float) -> Points:
    """`factor` x a bound + `plus`."""
    return [(size, factor * value + plus) for size, value in points]
