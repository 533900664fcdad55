"""The largest step of a ladder that holds, with few tries."""

from collections.abc import Callable


def largest_holding(
    holds: Callable[[int], bool], *, start: int, low: int, high: int, stride: int = 1
) -> int | None:
    """The largest step that holds, if every step below one that holds does too.

    From `start` in ever longer strides to two steps of which only the lower holds, then bisection between
    them. Where steps hold here and there, it is one that holds with a next one that does not, or `high`.

    Args:
        holds: Whether a step holds; a step is asked for at most once.
        start: Where to begin, in [low, high].
        low: Lowest step.
        high: Highest step.
        stride: Length of the first stride, >= 1; it doubles.

    Returns:
        The step; None if not even `low` holds.

    Complexity:
        O(log(distance from start to the answer)) tries.
    """
    if holds(start):
        good, bad = start, high + 1
        while good < high:
            step = min(good + stride, high)
            if not holds(step):
                bad = step
                break
            good, stride = step, 2 * stride
        if good == high:
            return high
    else:
        good, bad = low - 1, start
        while bad > low:
            step = max(bad - stride, low)
            if holds(step):
                good = step
                break
            bad, stride = step, 2 * stride
        if good < low:
            return None
    while bad - good > 1:
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
