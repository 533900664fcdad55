"""Chat messages in the OpenAI form, a conversation a line: `{"messages": [{"role", "content"}, ...]}`.

Each assistant message becomes a turn: the prompt is everything before it, the output as long as it
is. Later prompts contain what the turn generated, not the recorded text.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from runtime.errors import TraceError
from runtime.workload.draws import seeded
from runtime.workload.model import (
    FRESH_TOKEN_BASE,
    Literal,
    OutputOf,
    Segment,
    Session,
    Turn,
    Workload,
)
from runtime.workload.traces.lines import decode, numbered_lines, read_bytes, shown
from runtime.workload.traces.options import TraceOptions
from runtime.workload.traces.templated import TemplatedPrompts
from runtime.workload.traces.tokenizers import Tokenizer

ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
RESERVED_TOKEN_BASE: Final = FRESH_TOKEN_BASE - 64
"""Ids from here to `FRESH_TOKEN_BASE` mark who speaks; tokenizers must stay below."""

END_OF_MESSAGE: Final = RESERVED_TOKEN_BASE
TOOLS: Final = RESERVED_TOKEN_BASE + 1
ROLE_TOKENS: Final = {role: TOOLS + 1 + number for number, role in enumerate(ROLES)}

MEAN_THINK_S: Final = 15.0
MEAN_TOOL_S: Final = 1.5

NOTES: Final = (
    f"Messages carry no times: start times and pauses were drawn by the seed, pauses of "
    f"{MEAN_THINK_S:g} s in the mean before a person's message and {MEAN_TOOL_S:g} s for a tool.\n"
    "Later prompts contain the generated outputs in place of the recorded answers."
).splitlines()


class Message(msgspec.Struct, frozen=True):
    """One message.

    Attributes:
        role: Who speaks.
        content: Text, or parts of which each must be text.
        tool_calls: What an assistant calls, in any form.
    """

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[Any] | None = None


class Conversation(msgspec.Struct, frozen=True):
    """One line.

    Attributes:
        messages: In order.
        tools: Tool schemas, in any form; they stand before the first message.
    """

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    tools: list[Any] | None = None


def load_chat_messages(path: Path, options: TraceOptions) -> Workload:
    """Conversations as closed-loop sessions.

    A message is its role's reserved id, its text, its tool calls as JSON, and an end mark; a prompt
    ends with the assistant's id. An output is as long as the message's text, calls and end mark. With
    `options.chat` a model's chat template writes the prompt instead.

    Args:
        path: The file, plain or gzip.
        options: `tokenizer` makes the tokens, `chat` the form of prompts; `seed` and `arrivals` draw start
            times and pauses.

    Raises:
        TraceError: See `runtime.workload.traces`.

    Complexity:
        O(text); equal texts are encoded once.
    """
    decoder = msgspec.json.Decoder(Conversation)
    encode = _Encoder(options.tokenizer)
    prompts = None if options.chat is None else TemplatedPrompts(options.chat)
    rng = seeded(options.seed)
    conversations: list[tuple[int, tuple[Turn, ...]]] = []
    num_silent = num_unanswered = 0
    for number, text in numbered_lines(read_bytes(path)):
        messages = decode(decoder, text, path, number)
        if prompts is None:
            turns = _turns(messages, encode, rng, path, number)
        else:
            turns = _templated_turns(messages, encode, prompts, rng, path, number)
        if turns:
            conversations.append((number, turns))
            num_unanswered += messages.messages[-1].role != "assistant"
        num_silent += not turns
    if not conversations:
        raise TraceError(path, None, "holds no assistant message, so nothing to generate")
    starts = options.arrivals.start_times(len(conversations), rng)
    sessions = [
        Session(session_id=f"conversation-{number}", start_s=float(start), turns=turns)
        for start, (number, turns) in zip(starts, conversations, strict=True)
    ]
    notes = [f"Tokens are made by the tokenizer {options.tokenizer.name!r}.", *NOTES]
    if prompts is not None:
        notes.append("Prompts are written by the model's chat template.")
    if num_silent:
        notes.append(f"{num_silent} conversations without an assistant message were left out.")
    if num_unanswered:
        notes.append(f"{num_unanswered} conversations end in messages that nobody answers.")
    return Workload(name=path.name, sessions=tuple(sessions), notes=tuple(notes))


class _Encoder:
    """Texts to literals, equal texts to the same literal."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._known: dict[tuple[int, str], Literal] = {}

    def message(self, mark: int, text: str) -> Literal:
        """The mark, the text, the end mark."""
        known = self._known.get((mark, text))
        if known is None:
            ids = [mark, *self.text(text), END_OF_MESSAGE]
            known = Literal(np.array(ids, dtype=np.int32))
            self._known[mark, text] = known
        return known

    def text(self, text: str) -> list[int]:
        """The text alone."""
        ids = self._tokenizer.encode(text)
        if ids and not 0 <= min(ids) <= max(ids) < RESERVED_TOKEN_BASE:
            raise ValueError(
                f"tokenizer {self._tokenizer.name!r} made the id {max(ids, key=abs)}, outside "
                f"[0, {RESERVED_TOKEN_BASE})"
            )
        return ids


def _turns(
    conversation: Conversation,
    encode: _Encoder,
    rng: np.random.Generator,
    path: Path,
    line: int,
) -> tuple[Turn, ...]:
    said: list[Segment | OutputOf] = []
    if conversation.tools:
        said.append(encode.message(TOOLS, _json(conversation.tools)))
    ask = Literal(np.array([ROLE_TOKENS["assistant"]], dtype=np.int32))
    turns: list[Turn] = []
    previous = ""
    for message in conversation.messages:
        text = _text(message, path, line)
        try:
            if message.role == "assistant":
                output_len = len(encode.text(text)) + 1
                said.append(ask)
                turns.append(_turn(said, output_len, len(turns), previous, rng))
                said.append(OutputOf(len(turns) - 1))
            else:
                said.append(encode.message(ROLE_TOKENS[message.role], text))
        except (ValueError, UnicodeError) as error:
            raise TraceError(path, line, f"{error}: {shown(text.encode(errors='replace'))}") from error
        previous = message.role
    return tuple(turns)


def _templated_turns(
    conversation: Conversation,
    encode: _Encoder,
    prompts: TemplatedPrompts,
    rng: np.random.Generator,
    path: Path,
    line: int,
) -> tuple[Turn, ...]:
    said: list[dict[str, Any]] = []
    turns: list[Turn] = []
    previous = ""
    for message in conversation.messages:
        text = _text(message, path, line)
        if message.role == "assistant":
            try:
                segments = prompts.segments(said, conversation.tools)
                output_len = len(encode.text(text)) + 1
            except (ValueError, UnicodeError) as error:
                raise TraceError(path, line, str(error)) from error
            turns.append(_turn(segments, output_len, len(turns), previous, rng))
        said.append({"role": message.role, "content": text})
        previous = message.role
    return tuple(turns)


def _turn(
    said: Sequence[Segment | OutputOf],
    output_len: int,
    number: int,
    previous: str,
    rng: np.random.Generator,
) -> Turn:
    is_result = previous in ("tool", "function")
    pause_s = float(rng.exponential(MEAN_TOOL_S if is_result else MEAN_THINK_S))
    kind = "tool result" if is_result else "follow-up"
    return Turn(
        segments=tuple(said),
        output_len=output_len,
        after=(number - 1,) if number else (),
        think_s=pause_s if number else 0.0,
        kind=kind if number else "first",
    )


def _text(message: Message, path: Path, line: int) -> str:
    """What a message says, tool calls as JSON behind its text."""
    if message.role not in ROLE_TOKENS:
        reason = f"role {message.role!r} is not one of {', '.join(ROLES)}"
        raise TraceError(path, line, reason)
    content = message.content or ""
    if not isinstance(content, str):
        for part in content:
            if not isinstance(part.get("text"), str):
                reason = f"content part is no text: {shown(msgspec.json.encode(part))}"
                raise TraceError(path, line, reason)
        content = "".join(part["text"] for part in content)
    return content + (_json(message.tool_calls) if message.tool_calls else "")


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
