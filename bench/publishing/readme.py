"""The parts of README that come from result files, each between two comments that name it."""

import re
from collections.abc import Mapping

from bench.errors import BenchError

_PART = re.compile(r"(<!-- results: ([a-z-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


class PartsDiffer(BenchError, ValueError):
    """README has other parts than are made of the result files."""


def filled(text: str, parts: Mapping[str, str]) -> str:
    """`text` with each part in its place.

    Raises:
        PartsDiffer: A part has no place, or a place no part.
    """
    places = [name for _, name, _ in _PART.findall(text)]
    if sorted(places) != sorted(parts):
        raise PartsDiffer(f"README has places for {places}, the results make {list(parts)}")
    return _PART.sub(lambda found: f"{found[1]}{parts[found[2]]}\n{found[3]}", text)
