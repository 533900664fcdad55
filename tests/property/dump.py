"""Everything a cache knows, as one text that two moments can be compared by.

Walks whatever attributes the objects have, so that a field added tomorrow is part of it. Left out is only
`hot`, the child that a walk tries first: a hint that changes no answer.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sortedcontainers import SortedList

from radixcache import PrefixCache

_HINTS = {"hot"}


def dump(cache: PrefixCache, *, without_failed_reserves: bool = False) -> str:
    text = _Dumper().text(cache)
    if without_failed_reserves:
        text = text.replace(f"failed_reserves={cache.stats.failed_reserves};", "")
    return text


class _Dumper:
    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []  # a temporary that dies would hand its id to the next

    def text(self, thing: Any) -> str:
        if thing is None or isinstance(thing, bool | int | float | str | bytes | np.generic):
            return repr(thing)
        if callable(thing):
            return f"<{getattr(thing, '__qualname__', type(thing).__qualname__)}>"
        if id(thing) in self._numbers:
            return f"#{self._numbers[id(thing)]}"
        self._numbers[id(thing)] = len(self._alive)
        self._alive.append(thing)
        return f"#{self._numbers[id(thing)]}{type(thing).__name__}({self._content(thing)})"

    def _content(self, thing: Any) -> str:
        if isinstance(thing, np.ndarray):
            return f"{thing.dtype}{thing.tolist()}"
        if isinstance(thing, Mapping):
            return "".join(f"{self.text(key)}:{self.text(value)};" for key, value in thing.items())
        if isinstance(thing, set | frozenset):
            return "".join(sorted(f"{self.text(each)};" for each in thing))
        if isinstance(thing, list | tuple | deque | SortedList | bytearray):
            return "".join(f"{self.text(each)};" for each in thing)
        return "".join(f"{name}={self.text(value)};" for name, value in _attributes(thing))


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in sorted({*slots, *getattr(thing, "__dict__", {})} - _HINTS):
        if hasattr(thing, name):
            yield name, getattr(thing, name)
