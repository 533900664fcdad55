import csv
import io
import json
from pathlib import Path

import pytest

from radixcache import MissReason
from radixcache.errors import InvalidConfig
from runtime.request_table import COLUMNS, check_suffix, request_table
from tests.unit.runtime.sample_result import plausible_result, record, run, simulation

TWO = simulation(
    run(
        [
            record(client="acme", session_id='a "quoted", name'),
            record(request_id="r1", status="refused", error="too\nlong", first_token_s=None, finished_s=None),
        ]
    )
)


def rows(result) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(request_table(result, ".csv").decode())))


def test_a_row_has_what_the_record_has_and_what_follows_from_it():
    first = rows(TWO)[0]
    assert tuple(first) == COLUMNS
    assert (first["run"], first["client"], first["session_id"]) == ("radix cache", "acme", 'a "quoted", name')
    assert (first["queue_delay_s"], first["ttft_s"], first["tpot_s"], first["e2e_s"]) == (
        "0.5",
        "1.0",
        "1.0",
        "4.0",
    )
    assert (first["matched_tokens"], first["missed_never_seen"], first["missed_last_token"]) == (
        "64",
        "35",
        "1",
    )
    assert (first["missed_evicted"], first["status"], first["error"]) == ("0", "finished", "")


def test_what_is_not_known_is_empty():
    second = rows(TWO)[1]
    assert (second["ttft_s"], second["finished_s"], second["error"]) == ("", "", "too\nlong")


def test_every_miss_reason_has_a_column():
    assert {f"missed_{reason}" for reason in MissReason} <= set(COLUMNS)


def test_both_forms_hold_the_same_and_every_run():
    result = plausible_result(40, 5)
    lines = [json.loads(line) for line in request_table(result, ".jsonl").splitlines()]
    assert len(lines) == 80
    assert [tuple(line) for line in lines] == [COLUMNS] * 80
    as_text = [{name: "" if value is None else str(value) for name, value in line.items()} for line in lines]
    assert as_text == rows(result)


def test_other_names_and_folders_that_are_not_there_are_refused(tmp_path: Path):
    with pytest.raises(InvalidConfig, match=r"as .csv or .jsonl, not as .*requests.txt"):
        check_suffix(tmp_path / "requests.txt")
    with pytest.raises(InvalidConfig, match=r"no such folder: .*nowhere"):
        check_suffix(tmp_path / "nowhere" / "requests.csv")
    check_suffix(tmp_path / "requests.jsonl")
