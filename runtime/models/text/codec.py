"""Text to tokens and back, for one model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.models.errors import ChatTemplateError
from runtime.models.text.stream import ByteLevelStream, TextStream, WindowStream
from runtime.models.text.template import ChatTemplate, Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TextCodec:
    """A tokenizer, its chat template, and the tokens that end an answer.

    Attributes:
        eos_ids: Tokens that end an answer.
        has_chat_template: `apply_chat` can be called.
    """

    def __init__(
        self,
        tokenizer: "Tokenizer",
        *,
        eos_ids: frozenset[int],
        template: ChatTemplate | None = None,
        tool_template: ChatTemplate | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._tool_template = tool_template or template
        self._special = frozenset(
            number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special
        )
        self.eos_ids = eos_ids

    @property
    def vocab_size(self) -> int:
        """Tokens there are; a model may have more rows than that."""
        return self._tokenizer.get_vocab_size()

    @property
    def has_chat_template(self) -> bool:
        """The model's files hold a chat template."""
        return self._template is not None

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text. A special token written out in it becomes that token.

        Args:
            text: Any text.
            add_special_tokens: Add what the tokenizer puts around a text, such as a first token. A rendered
                chat holds it already.
        """
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def encode_chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[int]:
        """Token ids of a conversation: `apply_chat`, then `encode` with nothing added.

        Raises:
            ChatTemplateError: There is no template, or it refuses the conversation.
        """
        text = self.apply_chat(messages, add_generation_prompt=add_generation_prompt, tools=tools)
        return self.encode(text, add_special_tokens=False)

    def apply_chat(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """A conversation as the model's chat template writes it.

        Raises:
            ChatTemplateError: There is no template, or it refuses the conversation.
        """
        template = self._template if tools is None else self._tool_template
        if template is None:
            raise ChatTemplateError("the model's files hold no chat template; write the prompt as plain text")
        return template.render(messages, add_generation_prompt=add_generation_prompt, tools=tools)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids; bytes that are no text become replacement characters."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def stream(self, *, skip_special_tokens: bool = True) -> TextStream:
        """A decoder for the tokens of one answer, one by one."""
        from tokenizers import decoders

        if isinstance(self._tokenizer.decoder, decoders.ByteLevel):
            return ByteLevelStream(self._tokenizer, self._special if skip_special_tokens else frozenset())
        return WindowStream(self._tokenizer, decoders.DecodeStream(skip_special_tokens=skip_special_tokens))
