"""Requests of a simulation one by one, as CSV or JSON lines.

Owns the columns. It computes nothing that `metrics` does not define.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from radixcache import MissReason
from radixcache.errors import InvalidConfig
from runtime.metrics import e2e_s, queue_delay_s, tpot_s, ttft_s
from runtime.result import RequestRecord, RunResult, SimulationResult

SUFFIXES: Final = (".csv", ".jsonl")

COLUMNS: Final = (
    "run",
    "request_id",
    "session_id",
    "turn",
    "kind",
    "client",
    "status",
    "arrival_s",
    "first_scheduled_s",
    "first_token_s",
    "finished_s",
    "queue_delay_s",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "prompt_tokens",
    "matched_tokens",
    "copied_tokens",
    "computed_prompt_tokens",
    "recomputed_tokens",
    "output_tokens",
    *(f"missed_{reason.value}" for reason in MissReason),
    "preemptions",
    "error",
)
"""Times in seconds of the run, `missed_*` in prompt tokens of the first admission; empty where unknown."""


def check_suffix(path: Path) -> None:
    """Whether a file of that name can be written.

    Raises:
        InvalidConfig: Its name ends in none of `SUFFIXES`, or its folder is not there.
    """
    if path.suffix not in SUFFIXES:
        raise InvalidConfig(f"requests are written as {' or '.join(SUFFIXES)}, not as {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidConfig(f"no such folder: {str(path.parent)!r}")


def request_table(result: SimulationResult, suffix: str) -> bytes:
    """All requests of all runs, in the order of the result.

    Args:
        result: What a simulation found.
        suffix: ".csv" (a head line, then one line a request) or ".jsonl" (one object a line).

    Complexity:
        O(requests).
    """
    rows = (_row(run, record) for run in result.runs for record in run.requests)
    return _as_csv(rows) if suffix == ".csv" else _as_json_lines(rows)


def _row(run: RunResult, record: RequestRecord) -> dict[str, Any]:
    known = {name: getattr(record, name) for name in COLUMNS if hasattr(record, name)}
    computed = {
        "run": run.label,
        "queue_delay_s": queue_delay_s(record),
        "ttft_s": ttft_s(record),
        "tpot_s": tpot_s(record),
        "e2e_s": e2e_s(record),
    }
    missed = {f"missed_{reason.value}": record.miss.get(reason.value, 0) for reason in MissReason}
    found = known | computed | missed
    return {name: found[name] for name in COLUMNS}


def _as_csv(rows: Iterator[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _as_json_lines(rows: Iterator[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
