"""Recorded runs of agents: what was said before each call of the model. Imports no cache."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run.

    Attributes:
        calls: For each call of the model, in order, the messages of its prompt.
    """

    calls: tuple[tuple[Message, ...], ...]


def read_runs(path: Path, *, num_runs: int, num_calls: int, tools: Path | None = None) -> list[AgentRun]:
    """The first calls of the first runs in a file of OpenAI chat messages, `{"messages": [...]}` a line.

    What a model called stands behind what it said, as JSON.

    Args:
        path: The file.
        num_runs: Runs at most.
        num_calls: Calls of each at most.
        tools: A JSON list of tool schemas; they stand behind the first message, as text.

    Raises:
        ValueError: A line is no such conversation, or the file holds none.
    """
    schemas = None if tools is None else json.dumps(json.loads(tools.read_text(encoding="utf-8")))
    runs: list[AgentRun] = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if len(runs) == num_runs:
                break
            try:
                messages = [_message(each) for each in json.loads(line)["messages"]]
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path.name}, line {number}, is no conversation: {error!r}") from error
            if schemas is not None and messages:
                messages[0] = {**messages[0], "content": f"{messages[0]['content']}\n\n# Tools\n\n{schemas}"}
            asked = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
            runs.append(AgentRun(tuple(tuple(messages[:place]) for place in asked[:num_calls])))
    if not runs:
        raise ValueError(f"{path.name} holds no conversation")
    return runs


def _message(recorded: dict[str, Any]) -> Message:
    content = recorded.get("content") or ""
    if not isinstance(content, str):
        raise TypeError("content is no text")
    calls = recorded.get("tool_calls")
    return {"role": str(recorded["role"]), "content": content + (json.dumps(calls) if calls else "")}
