"""How much bookkeeping a waiting queue keeps: entries of all that holds some, whatever it is called."""

from collections import deque
from collections.abc import Iterator

import numpy as np
from sortedcontainers import SortedList

from scheduler import Request, SchedulerConfig

_SEQUENCES = (list, tuple, set, frozenset, deque, SortedList)
_NOT_OURS = (Request, SchedulerConfig)


def count_entries(queue: object) -> dict[str, int]:
    """Entries of every dictionary, list, set, heap and array that a queue reaches, and the nodes of its tree.

    Requests, the cache and what functions close over are not followed. A tuple counts as part of its entry.
    Flags of one byte in an array, such as the one that there is for each page of the pool, do not count.

    Returns:
        Entries by "Class.attribute"; objects by "Class" where there is more than one.

    Complexity:
        O(entries).
    """
    counts: dict[str, int] = {}
    pending: list[tuple[str, object]] = [("", queue)]
    seen: set[int] = set()
    while pending:
        name, item = pending.pop()
        if id(item) in seen:
            continue
        if isinstance(item, dict):
            seen.add(id(item))
            counts[name] = counts.get(name, 0) + len(item)
            pending.extend((name, value) for value in (*item.keys(), *item.values()))
        elif isinstance(item, _SEQUENCES):
            seen.add(id(item))
            if not isinstance(item, tuple):
                counts[name] = counts.get(name, 0) + len(item)
            pending.extend((name, value) for value in item)
        elif isinstance(item, np.ndarray):
            seen.add(id(item))
            counts[name] = counts.get(name, 0) + (item.size if item.itemsize > 1 else 0)
        elif _is_part(item):
            seen.add(id(item))
            counts[type(item).__name__] = counts.get(type(item).__name__, 0) + 1
            pending.extend(_attributes(item))
    return {name: count for name, count in counts.items() if count > 1 or "." in name}


def _is_part(item: object) -> bool:
    return type(item).__module__.startswith("scheduler.") and not isinstance(item, _NOT_OURS)


def _attributes(item: object) -> Iterator[tuple[str, object]]:
    names = [name for each in type(item).__mro__ for name in getattr(each, "__slots__", ())]
    for name in [*names, *getattr(item, "__dict__", ())]:
        if hasattr(item, name):
            yield f"{type(item).__name__}.{name}", getattr(item, name)
