import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radixcache.errors import RadixCacheError
from runtime.errors import TraceError
from runtime.workload import Blocks, load_trace, prompt_of

GOOD: dict[str, Any] = {
    "timestamp": 1500,
    "input_length": 700,
    "output_length": 9,
    "hash_ids": [0, 7],
}


def write(path: Path, *lines: dict[str, Any] | str) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_a_line_is_a_session_of_one_turn(trace: Path) -> None:
    workload = load_trace(write(trace, GOOD))
    (session,) = workload.sessions
    (turn,) = session.turns
    assert (session.session_id, session.start_s) == ("request-1", 1.5)
    assert (turn.output_len, turn.after, turn.think_s) == (9, (), 0.0)
    assert prompt_of(turn, {}).tolist() == [*range(512), *range(7 * 512, 7 * 512 + 188)]
    assert workload.block_size == 512
    assert any("never hit" in note for note in workload.notes)


def test_equal_timestamps_keep_the_order_of_the_file(trace: Path) -> None:
    lines = [{**GOOD, "timestamp": 5, "output_length": 1 + i} for i in range(20)]
    sessions = load_trace(write(trace, *lines)).sessions
    assert [session.turns[0].output_len for session in sessions] == list(range(1, 21))


def test_falling_timestamps_are_sorted_and_said(trace: Path) -> None:
    lines = [{**GOOD, "timestamp": t, "output_length": o} for t, o in [(9, 1), (3, 2), (9, 3)]]
    workload = load_trace(write(trace, *lines))
    assert [session.turns[0].output_len for session in workload.sessions] == [2, 1, 3]
    assert any("sorted" in note for note in workload.notes)


def test_no_output_becomes_one_token_and_is_said(trace: Path) -> None:
    workload = load_trace(write(trace, {**GOOD, "output_length": 0}, GOOD))
    assert workload.sessions[0].turns[0].output_len == 1
    assert "1 request without output generates one token here." in workload.notes
    workload = load_trace(write(trace, *[{**GOOD, "output_length": 0}] * 2))
    assert "2 requests without output generate one token each here." in workload.notes


def test_gzip_blank_lines_and_a_byte_order_mark_are_read(trace: Path) -> None:
    text = "\ufeff" + json.dumps(GOOD) + "\n\n" + json.dumps(GOOD) + "\r\n"
    trace.write_bytes(gzip.compress(text.encode()))
    sessions = load_trace(trace).sessions
    assert [session.session_id for session in sessions] == ["request-1", "request-3"]


BAD_LINES = [
    ({**GOOD, "timestamp": "late"}, '"late"'),
    ({**GOOD, "timestamp": -1}, ">= 0.*-1"),
    ({**GOOD, "timestamp": None}, "null"),
    ({**GOOD, "input_length": -5}, "-5"),
    ({**GOOD, "input_length": 0, "hash_ids": []}, ">= 1.*0"),
    ({**GOOD, "input_length": 1.5}, "1.5"),
    ({**GOOD, "output_length": -1}, "-1"),
    ({**GOOD, "output_length": True}, "true"),
    ({**GOOD, "hash_ids": [0, "x"]}, r'hash_ids\[.*"x"'),
    ({**GOOD, "hash_ids": [0, -3]}, r">= 0"),
    ({**GOOD, "hash_ids": {"a": 1}}, "array.*object"),
    ({**GOOD, "hash_ids": [0]}, "input_length 700 needs 2 hash_ids of 512 tokens, not 1"),
    ({**GOOD, "hash_ids": [0, 1, 2]}, "needs 2 hash_ids of 512 tokens, not 3"),
    ({**GOOD, "hash_ids": [0, 2**21]}, "hash id 2097152 is above 2097151"),
    ({**GOOD, "hash_ids": [0, 2**70]}, "hash"),
    ({"timestamp": 0, "input_length": 5, "output_length": 5}, "hash_ids"),
    ("[1, 2]", "array"),
    ("{bad json", "no JSON.*bad json"),
    ('{"timestamp": 1e999}', "1e999"),
    ('{"timestamp": "\udcff"}'.encode("utf-8", "replace").decode() + "}", "timestamp"),
    ('{"x": ' + "[" * 100_000, "no JSON"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_line_is_named_with_its_value_on_one_line(
    trace: Path, line: dict[str, Any] | str, message: str
) -> None:
    with pytest.raises(TraceError, match=message) as caught:
        load_trace(write(trace, GOOD, "", line, GOOD), "mooncake")
    assert str(caught.value).startswith(f"{trace}:3: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.line == 3


def test_invalid_utf8_is_named(trace: Path) -> None:
    trace.write_bytes(json.dumps(GOOD).encode() + b'\n{"timestamp": "\xff\xfe"}\n')
    with pytest.raises(TraceError, match=r"trace\.jsonl:2: "):
        load_trace(trace, "mooncake")


def test_missing_empty_and_broken_files_are_named(tmp_path: Path, trace: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.jsonl: no such file"):
        load_trace(tmp_path / "nowhere.jsonl", "mooncake")
    for content in ("", "\n \n"):
        trace.write_text(content)
        with pytest.raises(TraceError, match=r"trace\.jsonl: is empty"):
            load_trace(trace, "mooncake")
    trace.write_bytes(gzip.compress(b"x" * 1000)[:-20])
    with pytest.raises(TraceError, match="broken gzip"):
        load_trace(trace, "mooncake")
    with pytest.raises(TraceError, match="cannot be read"):
        load_trace(tmp_path, "mooncake")


@pytest.mark.shared_data
def test_the_published_trace_loads_fast_and_unexpanded(shared: Path) -> None:
    start = time.perf_counter()
    workload = load_trace(shared / "data/traces/mooncake_conversation.jsonl")
    assert time.perf_counter() - start < 1
    assert len(workload.sessions) == workload.num_turns == 12_031
    prompts = [session.turns[0].segments[0] for session in workload.sessions]
    lengths = [len(prompt) for prompt in prompts if isinstance(prompt, Blocks)]
    assert len(lengths) == 12_031
    assert sum(lengths) == pytest.approx(12_035 * 12_031, rel=1e-4)
    assert max(lengths) == 126_195


@pytest.mark.shared_data
def test_all_published_prompts_share_block_zero_and_chain_their_blocks(shared: Path) -> None:
    workload = load_trace(shared / "data/traces/mooncake_conversation.jsonl")
    parent: dict[int, int] = {}
    for session in workload.sessions:
        prompt = session.turns[0].segments[0]
        assert isinstance(prompt, Blocks)
        block_ids = prompt.block_ids.tolist()
        assert block_ids[0] == 0
        for before, block in zip([-1, *block_ids], block_ids, strict=False):
            assert parent.setdefault(block, before) == before


@pytest.mark.shared_data
def test_a_prompt_of_twelve_thousand_tokens_takes_microseconds(shared: Path) -> None:
    workload = load_trace(shared / "data/traces/mooncake_conversation.jsonl")
    turns = [session.turns[0] for session in workload.sessions[:2000]]
    start = time.perf_counter()
    num_tokens = sum(len(prompt_of(turn, {})) for turn in turns)
    per_prompt_s = (time.perf_counter() - start) / num_tokens * 12_000
    assert per_prompt_s < 300e-6
    assert np.iinfo(np.int32).max > num_tokens
