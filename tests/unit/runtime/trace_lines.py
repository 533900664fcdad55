"""Files of the project's own trace format, made by hand."""

import json
from pathlib import Path
from typing import Any

from runtime.workload import Workload, load_trace

HEADER: dict[str, Any] = {"format": "radixcache", "version": 1, "block_size": 4, "time_unit": "s"}


def line(hash_ids: list[int | str], input_length: int, output_length: int = 1, **more: Any) -> dict[str, Any]:
    """A request that arrives at 0, unless `more` says otherwise; fields that are None are left out."""
    given = {"arrival": 0.0, **more, "input_length": input_length, "output_length": output_length}
    return {name: value for name, value in given.items() if value is not None} | {"hash_ids": hash_ids}


def write(path: Path, *lines: dict[str, Any] | str, header: dict[str, Any] | None = None) -> Path:
    all_lines = [header or HEADER, *lines]
    path.write_text(
        "\n".join(each if isinstance(each, str) else json.dumps(each) for each in all_lines) + "\n"
    )
    return path


def load(path: Path, *lines: dict[str, Any] | str, header: dict[str, Any] | None = None) -> Workload:
    return load_trace(write(path, *lines, header=header))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


ASKED = line(["a", "b1"], 6, 7, finished=2.0, output_hash_ids=["b2", "c", "d1"])
"""Prompt of 6 tokens, output of 7: two more full blocks, and one token of a fourth."""

FOLLOW_UP = line(["a", "b2", "c", "d2", "e"], 18, 3, arrival=5.0)
"""Contains 6 of these 7 tokens in whole blocks, then other blocks."""
