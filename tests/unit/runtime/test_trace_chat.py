import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.errors import TraceError
from runtime.workload import OutputOf, TraceOptions, Workload, load_trace, prompt_of
from runtime.workload.traces.chat_messages import (
    END_OF_MESSAGE,
    RESERVED_TOKEN_BASE,
    ROLE_TOKENS,
    TOOLS,
)

SYSTEM = {"role": "system", "content": "be kind"}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "hello"}


def load(path: Path, *lines: Any, options: TraceOptions | None = None) -> Workload:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return load_trace(path, options=options)


def conversation(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def said(role: str, text: str) -> list[int]:
    return [ROLE_TOKENS[role], *text.encode(), END_OF_MESSAGE]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


def test_every_assistant_message_is_a_turn(trace: Path) -> None:
    workload = load(trace, conversation(SYSTEM, USER, ANSWER, USER, ANSWER))
    turns = workload.sessions[0].turns
    assert [turn.output_len for turn in turns] == [len("hello") + 1] * 2
    assert [turn.after for turn in turns] == [(), (0,)]
    assert [turn.kind for turn in turns] == ["first", "follow-up"]
    assert turns[0].think_s == 0.0 < turns[1].think_s


def test_later_prompts_hold_what_was_generated_not_what_was_recorded(trace: Path) -> None:
    turns = load(trace, conversation(SYSTEM, USER, ANSWER, USER, ANSWER)).sessions[0].turns
    first = said("system", "be kind") + said("user", "hi") + [ROLE_TOKENS["assistant"]]
    assert prompt_of(turns[0], {}).tolist() == first
    generated = np.array([2**30, 2**30 + 1], dtype=np.int32)
    second = [*first, *generated, *said("user", "hi"), ROLE_TOKENS["assistant"]]
    assert prompt_of(turns[1], {0: generated}).tolist() == second
    assert OutputOf(0) in turns[1].segments


def test_tool_calls_count_as_output_and_results_as_prompt(trace: Path) -> None:
    calls = [{"function": {"name": "f", "arguments": "{}"}, "id": "1"}]
    call = {"role": "assistant", "content": None, "tool_calls": calls}
    result = {"role": "tool", "content": "42", "tool_call_id": "1", "name": "f"}
    turns = load(trace, conversation(USER, call, result, ANSWER)).sessions[0].turns
    text = '[{"function":{"arguments":"{}","name":"f"},"id":"1"}]'
    assert turns[0].output_len == len(text) + 1
    assert turns[1].kind == "tool result"
    made = prompt_of(turns[1], {0: np.array([], dtype=np.int32)}).tolist()
    assert made[-len(said("tool", "42")) - 1 : -1] == said("tool", "42")


def test_tool_schemas_stand_first(trace: Path) -> None:
    turns = load(trace, conversation(USER, ANSWER, tools=[{"b": 1, "a": 2}])).sessions[0].turns
    tools = [TOOLS, *b'[{"a":2,"b":1}]', END_OF_MESSAGE]
    assert prompt_of(turns[0], {}).tolist()[: len(tools)] == tools


def test_text_parts_are_joined(trace: Path) -> None:
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    whole, split = (
        load(trace, conversation({"role": "user", "content": content}, ANSWER)) for content in ("hi", parts)
    )
    one, two = (prompt_of(workload.sessions[0].turns[0], {}) for workload in (whole, split))
    assert one.tolist() == two.tolist()


def test_an_empty_answer_is_its_end_mark(trace: Path) -> None:
    turns = load(trace, conversation({"role": "assistant", "content": ""})).sessions[0].turns
    assert turns[0].output_len == 1
    assert prompt_of(turns[0], {}).tolist() == [ROLE_TOKENS["assistant"]]


def test_conversations_that_ask_for_nothing_are_left_out_and_said(trace: Path) -> None:
    workload = load(trace, conversation(USER), conversation(USER, ANSWER, USER))
    assert [session.session_id for session in workload.sessions] == ["conversation-2"]
    notes = " ".join(workload.notes)
    assert "1 conversations without an assistant message" in notes
    assert "1 conversations end in messages that nobody answers" in notes
    with pytest.raises(TraceError, match="no assistant message"):
        load(trace, conversation(USER))


def test_same_seed_same_times(trace: Path) -> None:
    lines = [conversation(USER, ANSWER, USER, ANSWER)] * 4
    one, again, other = (
        [
            (session.start_s, *(turn.think_s for turn in session.turns))
            for session in load(trace, *lines, options=TraceOptions(seed=seed)).sessions
        ]
        for seed in (1, 1, 2)
    )
    assert one == again != other


class Offset:
    """A tokenizer that makes one id of every text."""

    name = "offset"

    def __init__(self, token: int) -> None:
        self.token = token

    def encode(self, text: str) -> list[int]:
        return [self.token]


def test_a_tokenizer_of_the_callers_is_used_and_named(trace: Path) -> None:
    options = TraceOptions(tokenizer=Offset(77))
    workload = load(trace, conversation(USER, ANSWER), options=options)
    assert prompt_of(workload.sessions[0].turns[0], {}).tolist()[1] == 77
    assert "'offset'" in workload.notes[0]


@pytest.mark.parametrize("token", [-1, RESERVED_TOKEN_BASE])
def test_a_tokenizer_that_leaves_its_range_is_named(trace: Path, token: int) -> None:
    with pytest.raises(TraceError, match=f":1: tokenizer 'offset' made the id {token}"):
        load(trace, conversation(USER, ANSWER), options=TraceOptions(tokenizer=Offset(token)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (conversation(), "length >= 1"),
        (conversation({"role": "robot", "content": "x"}), "role 'robot' is not one of system"),
        (conversation({"content": "x"}), "missing required field `role`"),
        (conversation({"role": "user", "content": 5}), "int.*: 5"),
        (conversation({"role": "user", "content": [{"type": "image_url"}]}), "is no text.*image"),
        ({"messages": [USER, "hi"]}, 'str.*: "hi"'),
        ({"messages": {"role": "user"}}, "array"),
        ([USER], "array"),
    ],
)
def test_a_bad_conversation_is_named(trace: Path, line: Any, message: str) -> None:
    good = json.dumps(conversation(USER, ANSWER))
    trace.write_text(f"{good}\n{json.dumps(line)}\n")
    with pytest.raises(TraceError, match=message) as caught:
        load_trace(trace)
    assert str(caught.value).startswith(f"{trace}:2: ")
    assert "\n" not in str(caught.value)


@pytest.mark.shared_data
def test_recorded_agents_share_their_policy(shared: Path) -> None:
    workload = load_trace(shared / "data/agents/tau_bench/airline_trajectories.jsonl")
    assert (len(workload.sessions), workload.num_turns) == (100, 1229)
    policies = {id(session.turns[0].segments[0]) for session in workload.sessions}
    assert len(policies) == 1
