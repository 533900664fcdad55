"""Comparing token buffers without a Python loop over tokens."""


def common_units(data: bytes, at: int, limit: int, other: bytes, unit: int, other_at: int = 0) -> int:
    """How many leading units of `other`, from `other_at` on, stand in `data` from `at` on.

    Gallops to the first segment that differs, then halves it, so that what is compared and copied is
    proportional to the answer.

    Args:
        data: Where to look. Positions are bytes.
        at: Where to begin.
        limit: Where to end; at most `len(data)`.
        other: What to compare with.
        unit: Size of a unit, in bytes.
        other_at: Where to begin in it.

    Returns:
        The number of whole units that agree, at most `min(limit - at, len(other) - other_at) // unit`.

    Complexity:
        O(units that agree) memcmp and memcpy, O(log units) Python steps.

    Example:
        >>> common_units(b"__abcdef", 2, 8, b"abcdxx", 2)
        2
    """
    most = min(limit - at, len(other) - other_at) // unit
    offset = at - other_at
    agreed, step = 0, 1
    while agreed < most:
        step = min(step, most - agreed)
        start = other_at + agreed * unit
        if not data.startswith(other[start : start + step * unit], offset + start):
            break
        agreed += step
        step *= 2
    else:
        return max(most, 0)
    while step > 1:
        step = (step + 1) // 2
        start = other_at + agreed * unit
        if agreed + step <= most and data.startswith(other[start : start + step * unit], offset + start):
            agreed += step
    return agreed
