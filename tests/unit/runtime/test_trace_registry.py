import json
from pathlib import Path
from typing import Any

import pytest

from radixcache.errors import UnknownName
from runtime.errors import TraceError
from runtime.workload import TRACE_FORMATS, load_trace
from runtime.workload.traces import ByteTokenizer, HuggingFaceTokenizer
from runtime.workload.traces.registry import sniff_format

SAMPLES: dict[str, dict[str, Any] | list[dict[str, Any]]] = {
    "mooncake": {"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [4]},
    "agentic": {
        "id": "a",
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 0,
        "system_tokens": 0,
        "requests": [{"t": 0, "type": "s", "model": "m", "in": 9, "out": 1, "hash_ids": []}],
    },
    "chat-messages": {"messages": [{"role": "assistant", "content": "x"}]},
    "radixcache": [
        {"format": "radixcache", "version": 1, "block_size": 4},
        {"arrival": 0, "input_length": 3, "output_length": 1, "hash_ids": [4]},
    ],
}


def text_of(name: str) -> str:
    """The sample, an object a line."""
    sample = SAMPLES[name]
    return "\n".join(map(json.dumps, sample if isinstance(sample, list) else [sample]))


def test_every_format_has_a_sample() -> None:
    assert SAMPLES.keys() == TRACE_FORMATS.keys()


@pytest.mark.parametrize("name", sorted(TRACE_FORMATS))
def test_the_format_is_found_by_content_whatever_the_name(tmp_path: Path, name: str) -> None:
    for file_name in ("trace", "trace.txt", "mooncake.jsonl", "agentic.delta.jsonl"):
        path = tmp_path / file_name
        path.write_text(text_of(name))
        assert sniff_format(path) == name
        assert load_trace(path).num_turns == load_trace(str(path), name).num_turns == 1


@pytest.mark.parametrize("name", sorted(TRACE_FORMATS))
def test_every_loader_names_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    for trace_format in (name, None):
        with pytest.raises(TraceError, match=r"gone\.jsonl: no such file"):
            load_trace(tmp_path / "gone.jsonl", trace_format)


@pytest.mark.parametrize("name", sorted(TRACE_FORMATS))
def test_every_loader_names_a_file_of_another_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / "trace.jsonl"
    for other in TRACE_FORMATS.keys() - {name}:
        path.write_text(text_of(other))
        with pytest.raises(TraceError, match=r"trace\.jsonl:1: .*missing required field"):
            load_trace(path, name)


@pytest.mark.parametrize("text", ['{"x": 1}', "[]", "7", '{"timestamp": 3'])
def test_an_unknown_format_is_named_with_what_stands_there(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"trace\.jsonl:1: is no (JSON|trace of a known format)"):
        load_trace(path)


CSV = ["a,b\n1,2\n", '"a";"b"\n1;2\n', "\ufeffa\tb\n1\t2\n", "1,2\n3,4\n"]


@pytest.mark.parametrize("text", CSV)
@pytest.mark.parametrize("name", ["trace.csv", "trace.json"])
def test_a_table_is_named_with_the_formats_that_are_read(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    expected = rf"{name}:1: looks like CSV and is no trace of a known format \({', '.join(TRACE_FORMATS)}\)"
    with pytest.raises(TraceError, match=expected):
        load_trace(path)


@pytest.mark.parametrize("text", CSV)
@pytest.mark.parametrize("name", sorted(TRACE_FORMATS))
def test_every_loader_names_a_table(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"trace\.csv:1: looks like CSV, but traces are JSON: "):
        load_trace(path, name)


@pytest.mark.parametrize("data", [b"nope\n", b'{"a": 1, b}\n', b"PAR1\x15\x04,\x15\n", b"\xff,\xfe\0\n"])
def test_what_is_no_table_is_no_json(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    for name in (None, "mooncake"):
        with pytest.raises(TraceError, match="trace:1: is no JSON"):
            load_trace(path, name)


def test_an_unknown_format_name_offers_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown trace format 'moonkake': did you mean mooncake"):
        load_trace(tmp_path / "x", "moonkake")


def test_bytes_are_tokens() -> None:
    assert ByteTokenizer().encode("é") == [0xC3, 0xA9]
    assert ByteTokenizer().encode("") == []


def test_a_hugging_face_tokenizer_is_read(tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers")
    model = library.models.WordLevel({"hi": 3, "you": 5, "?": 0}, unk_token="?")
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.Whitespace()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    assert HuggingFaceTokenizer(path).encode("hi you there") == [3, 5, 0]
    assert HuggingFaceTokenizer(path).name == "tokenizer.json"


def test_a_tokenizer_file_that_is_none_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    with pytest.raises(TraceError, match=r"gone\.json: no such tokenizer file"):
        HuggingFaceTokenizer(tmp_path / "gone.json")
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(TraceError, match=r"tokenizer\.json: is no tokenizer\.json"):
        HuggingFaceTokenizer(path)
