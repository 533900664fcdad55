"""Chat templates: a conversation as the text that the model was trained on.

Templates are programs from strangers. They run in Jinja's sandbox for immutable data, with the few helpers
that published templates expect: `raise_exception`, `strftime_now`, a `tojson` that escapes no HTML, loop
controls and the `generation` block.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from runtime.models.errors import ChatTemplateError

Message = Mapping[str, Any]
"""One turn: `role`, `content`, and what else the template knows, such as `tool_calls`."""


class ChatTemplate:
    """A compiled template.

    Raises:
        ChatTemplateError: The source is no Jinja template.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self._special_tokens = dict(special_tokens)
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, LoopControlExtension]
        )
        environment.filters["tojson"] = _tojson
        environment.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ChatTemplateError(f"the chat template does not compile: {error}") from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> str:
        """The conversation as one text.

        Args:
            messages: Turns, oldest first.
            add_generation_prompt: End with the words after which the model answers.
            tools: JSON schemas of functions that the model may call.

        Raises:
            ChatTemplateError: The template refuses the conversation, or fails on it.
        """
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                tools=None if tools is None else [dict(tool) for tool in tools],
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._special_tokens,
            )
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise ChatTemplateError(f"the chat template refuses the conversation: {error}") from error


class _GenerationBlock(Extension):
    """`{% generation %}` marks, for training, what the model says; here it is its content."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares a set

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
