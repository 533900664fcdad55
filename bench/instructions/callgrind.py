"""Reads what callgrind wrote."""

import re
from collections.abc import Iterable
from pathlib import Path

from bench.errors import BenchError

_NAME = re.compile(r"^desc: Trigger: Client Request: (.+)$", re.MULTILINE)
_EVENTS = re.compile(r"^events: Ir$", re.MULTILINE)
_TOTAL = re.compile(r"^totals: (\d+)$", re.MULTILINE)


def section_totals(files: Iterable[Path]) -> dict[str, int]:
    """Instructions of each named section.

    Args:
        files: All that callgrind wrote, in any order. What was not asked for by name is passed over.

    Raises:
        BenchError: A name comes twice, or a file counts something else or has no total.
    """
    totals: dict[str, int] = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        name = _NAME.search(text)
        if name is None:
            continue
        total = _TOTAL.search(text)
        if total is None or not _EVENTS.search(text):
            raise BenchError(f"{file.name} has no total of instructions alone")
        if name[1] in totals:
            raise BenchError(f"there are two sections {name[1]!r}")
        totals[name[1]] = int(total[1])
    return totals
