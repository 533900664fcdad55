"""Prompts as a model's chat template writes them, with places for answers that do not exist yet."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from runtime.workload.model import Literal, OutputOf, Segment

_MARK: Final = "\ue000"
"""A private character around the number of an answer; texts that hold it are refused."""

_PLACES: Final = re.compile(f"{_MARK}([0-9]+){_MARK}")


class ChatCodec(Protocol):
    """What is needed of a model's tokenizer; `runtime.models.TextCodec` has it."""

    def apply_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """A conversation as one text."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; a special token written out in it becomes that token."""
        ...


class CodecTokenizer:
    """A model's own tokenizer as one for traces.

    Args:
        name: Name, for reports.
        codec: The model's.
    """

    def __init__(self, name: str, codec: ChatCodec) -> None:
        self._name = name
        self._codec = codec

    @property
    def name(self) -> str:
        """See `Tokenizer`."""
        return self._name

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`."""
        return self._codec.encode(text, add_special_tokens=False)


class TemplatedPrompts:
    """Makes prompts of conversations. Equal texts become the same literal.

    Args:
        codec: The model's tokenizer and template.
    """

    def __init__(self, codec: ChatCodec) -> None:
        self._codec = codec
        self._known: dict[str, Literal] = {}

    def segments(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> tuple[Segment | OutputOf, ...]:
        """The prompt for the next answer.

        Args:
            messages: What was said before; the n-th message of the assistant stands for the output of turn n,
                whatever its content.
            tools: JSON schemas, where the template knows what to do with them.

        Returns:
            Tokens of the rendered conversation, and outputs where answers stand in it.

        Raises:
            ValueError: The template refuses the conversation, or a text holds the private character U+E000.

        Complexity:
            O(text); a piece between two answers is encoded once.
        """
        if any(_MARK in str(message.get("content", "")) for message in messages):
            raise ValueError("a message holds the character U+E000, which marks the places of answers")
        marked: list[Mapping[str, Any]] = []
        num_answers = 0
        for message in messages:
            if message["role"] == "assistant":
                marked.append({"role": "assistant", "content": f"{_MARK}{num_answers}{_MARK}"})
                num_answers += 1
            else:
                marked.append(message)
        pieces = _PLACES.split(self._codec.apply_chat(marked, tools=tools))
        found: list[Segment | OutputOf] = []
        for place, piece in enumerate(pieces):
            if place % 2:
                found.append(OutputOf(int(piece)))
            elif piece:
                found.append(self._literal(piece))
        return tuple(found)

    def _literal(self, text: str) -> Literal:
        known = self._known.get(text)
        if known is None:
            ids = self._codec.encode(text, add_special_tokens=False)
            known = self._known[text] = Literal(np.array(ids, dtype=np.int32))
        return known
