"""A conversation as the tokens that a model is asked with, and how it stays within the model's context."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from radixcache.errors import InvalidConfig
from runtime.workload.traces import ChatCodec


class MessageTooLong(InvalidConfig):
    """A message leaves the context no room for an answer, even with all that was said before left out."""


@dataclass(frozen=True, slots=True)
class _State:
    """Messages, their text with the last answer at its end, and the tokens of that text."""

    said: tuple[dict[str, Any], ...] = ()
    text: str = ""
    ids: list[int] = field(default_factory=list)


class Conversation:
    """What was said so far.

    Answers stay the very tokens that the model generated: encoding their text anew may give others, which
    the cache would not find.

    Args:
        codec: The model's tokenizer and chat template.
        max_tokens: Tokens of prompt and answer together.
        system: The system prompt; `None`: the template's own.

    Attributes:
        max_tokens: As given.
    """

    def __init__(self, codec: ChatCodec, *, max_tokens: int, system: str | None = None) -> None:
        self._codec = codec
        self._system = [] if system is None else [{"role": "system", "content": system}]
        self._state = self._before = _State()
        self.max_tokens = max_tokens

    def ask(self, question: str, answer_tokens: int) -> tuple[list[int], int]:
        """Say something, and make room for the answer.

        Where question and answer do not fit any more, the oldest turns are dropped until half of the context
        is free: dropping one at a time would change the beginning of the prompt, and so lose the cache, with
        every turn.

        Args:
            question: What the user says.
            answer_tokens: Tokens of the answer at most.

        Returns:
            The prompt's token ids, and the number of turns that were dropped.

        Raises:
            MessageTooLong: Without any turn before it there is still no room. Nothing was said or dropped.
            ChatTemplateError: See `TextCodec.apply_chat`. Nothing was said or dropped.
        """
        said = (*self._state.said, {"role": "user", "content": question})
        text, ids = self._encode(said)
        num_dropped = 0
        if len(ids) + answer_tokens > self.max_tokens:
            while len(ids) > self.max_tokens // 2 and len(said) > 2:
                said = said[2:]
                num_dropped += 1
                text, ids = self._encode(said)
        if len(ids) >= self.max_tokens:
            raise MessageTooLong(
                f"the message and its frame have {len(ids)} tokens, which leaves the context of "
                f"{self.max_tokens} no room for an answer"
            )
        self._before, self._state = self._state, _State(said, text, ids)
        return ids, num_dropped

    def answer(self, text: str, token_ids: Sequence[int] | None) -> None:
        """What the model said to the last question.

        Args:
            text: Its text.
            token_ids: The tokens of that text, without one that ended it; `None`: they are not known.
        """
        state = self._state
        ids = self._codec.encode(text, add_special_tokens=False) if token_ids is None else token_ids
        said = (*state.said, {"role": "assistant", "content": text})
        self._state = _State(said, state.text + text, [*state.ids, *ids])

    def take_back(self) -> None:
        """Forget the last question, which got no answer; turns that were dropped for it are there again."""
        self._state = self._before

    def reset(self) -> None:
        """Forget everything but the system prompt."""
        self._state = self._before = _State()

    def _encode(self, said: Sequence[dict[str, Any]]) -> tuple[str, list[int]]:
        known = self._state
        text = self._codec.apply_chat([*self._system, *said])
        if known.ids and text.startswith(known.text):
            rest = self._codec.encode(text[len(known.text) :], add_special_tokens=False)
            return text, [*known.ids, *rest]
        return text, self._codec.encode(text, add_special_tokens=False)
