import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from runtime.errors import TraceError
from runtime.workload import OutputOf, TraceOptions, Workload, load_trace, prompt_of
from runtime.workload.traces import CodecTokenizer
from runtime.workload.traces.templated import TemplatedPrompts
from tests.unit.runtime.tiny_model import TEMPLATE, tiny_text

TEXT = tiny_text()
SYSTEM = {"role": "system", "content": "be kind"}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "hello"}


def load(path: Path, *messages: dict[str, Any], template: str = TEMPLATE, **more: Any) -> Workload:
    path.write_text(json.dumps({"messages": messages} | more))
    text = tiny_text(template)
    return load_trace(path, options=TraceOptions(tokenizer=CodecTokenizer("mine", text), chat=text))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


def test_a_prompt_is_what_the_template_writes_with_answers_in_their_places(trace: Path) -> None:
    workload = load(trace, SYSTEM, USER, ANSWER, USER, ANSWER)
    first, second = workload.sessions[0].turns
    assert prompt_of(first, {}).tolist() == TEXT.encode_chat([SYSTEM, USER])
    answer = TEXT.encode("something else")
    said = [SYSTEM, USER, {"role": "assistant", "content": "something else"}, USER]
    assert prompt_of(second, {0: np.array(answer, dtype=np.int32)}).tolist() == TEXT.encode_chat(said)
    assert first.output_len == second.output_len == len("hello") + 1
    assert any("chat template" in note for note in workload.notes)


def test_equal_pieces_are_one_literal(trace: Path) -> None:
    turns = load(trace, USER, ANSWER, USER, ANSWER, USER, ANSWER).sessions[0].turns
    assert turns[1].segments[0] is turns[2].segments[0]
    assert turns[1].segments[2] is turns[2].segments[2]
    assert turns[2].segments[1::2] == (OutputOf(0), OutputOf(1))


def test_tool_calls_count_as_output_and_tools_reach_the_template(trace: Path) -> None:
    calls = [{"name": "f"}]
    answer = {"role": "assistant", "content": None, "tool_calls": calls}
    workload = load(trace, USER, answer, template="{{ tools[0].name }}:" + TEMPLATE, tools=[{"name": "f"}])
    turn = workload.sessions[0].turns[0]
    assert TEXT.decode(prompt_of(turn, {})).startswith("f:")
    assert turn.output_len == len(json.dumps(calls, separators=(",", ":"))) + 1


def test_what_the_template_refuses_is_named_with_its_line(trace: Path) -> None:
    with pytest.raises(TraceError, match=r"chat\.jsonl:1: .*roles must alternate"):
        load(trace, USER, ANSWER, template="{{ raise_exception('roles must alternate') }}")


def test_the_private_mark_is_refused(trace: Path) -> None:
    with pytest.raises(TraceError, match=r"chat\.jsonl:1: .*U\+E000"):
        load(trace, {"role": "user", "content": "a \ue0000\ue000 b"}, ANSWER)


def test_an_answer_that_the_template_leaves_out_is_left_out() -> None:
    last_only = "{{ messages[-1].content }}"
    found = TemplatedPrompts(tiny_text(last_only)).segments([USER, ANSWER, USER])
    assert [segment.tokens().tolist() for segment in found if not isinstance(segment, OutputOf)] == [
        TEXT.encode("hi")
    ]
    assert len(found) == 1
