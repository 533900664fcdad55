"""Arguments of verbs as plain Python numbers, whatever number type they came in."""

import math

import numpy as np

from radixcache.errors import InvalidArgument, InvalidArgumentType


def as_integer(name: str, value: object) -> int:
    """A plain integer, so that no arithmetic on it can wrap round as NumPy's does.

    Raises:
        InvalidArgumentType: Not an integer.
    """
    if not isinstance(value, (int, np.integer)):
        raise InvalidArgumentType(f"{name} is an integer, got {value!r}")
    return int(value)


def as_seconds(name: str, value: object) -> float:
    """A finite number of seconds.

    Raises:
        InvalidArgument: Not finite.
        InvalidArgumentType: Not a number.
    """
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidArgumentType(f"{name} is a number of seconds, got {value!r}")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds):
        raise InvalidArgument(f"{name} is a finite number of seconds, got {value}")
    return seconds
