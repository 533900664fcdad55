"""`radixcache chat`: talk to a model, and see after each answer what the cache spared."""

import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from radixcache.errors import InvalidConfig
from runtime.cli.conversation import Conversation, MessageTooLong
from runtime.cli.model import machine_options, model_options, open_engine, sampling_of, sampling_options
from runtime.cli.served import served_line

if TYPE_CHECKING:
    from runtime.engine import Completion, Engine, SamplingParams

_COMMANDS: Final = ("/reset", "/quit")


@click.command(name="chat", short_help="Talk to a model, and see what the cache spares.")
@model_options
@machine_options
@sampling_options
@click.option("--system", metavar="TEXT", help="System prompt; by default the chat template's own.")
@click.option(
    "--cold/--no-cold",
    default=True,
    show_default=True,
    help="After each answer compute its prompt again without the cache, to compare.",
)
def chat_command(**options: Any) -> None:
    """Talk to a model; /reset begins anew, /quit or the end of the input ends it.

    When the conversation fills the model's context, its oldest turns are dropped until half is free.
    """
    params = sampling_of(options)
    engine, _ = open_engine(options)
    if engine.text is None or not engine.text.has_chat_template:
        raise InvalidConfig(f"the model {options['model']} has no chat template; `generate --raw` needs none")
    talk = Conversation(engine.text, max_tokens=engine.max_request_tokens, system=options["system"])
    chat = _Chat(engine, talk, params, cold=options["cold"])
    if options["cold"]:
        chat.warm_up(engine.text.encode_chat([{"role": "user", "content": "Hello."}]))
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while chat.hear(_read_line()):
            pass


def _read_line() -> str:
    """A line of the user, with a prompt and editing where there is a person."""
    if not sys.stdin.isatty():
        return input()
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # input() edits lines with it
    return input("> ")


class _Chat:
    def __init__(self, engine: "Engine", talk: Conversation, params: "SamplingParams", *, cold: bool) -> None:
        self._engine = engine
        self._talk = talk
        self._params = params
        self._cold = cold

    def warm_up(self, prompt: list[int]) -> None:
        """Compute a prompt that counts nowhere, so that no answer pays for the first use of kernels."""
        if len(prompt) < self._engine.max_request_tokens:
            self._cold_s(prompt)

    def hear(self, line: str) -> bool:
        """Do what a line says; whether there is to be another."""
        line = line.strip()
        if line == "/quit":
            return False
        if line == "/reset":
            self._talk.reset()
            _remark("the conversation begins anew")
        elif line.startswith("/"):
            _remark(f"there is no command {line.split()[0]}, there are {' and '.join(_COMMANDS)}")
        elif line:
            self._reply(line)
        return True

    def _reply(self, question: str) -> None:
        try:
            prompt, num_dropped = self._talk.ask(question, self._params.max_new_tokens)
        except MessageTooLong as error:
            _remark(f"not sent: {error}")
            return
        if num_dropped:
            turns = "turn was" if num_dropped == 1 else f"{num_dropped} turns were"
            _remark(
                f"the conversation fills the context of {self._talk.max_tokens:,} tokens: its oldest {turns} "
                "dropped, so that half is free; what followed them is computed anew"
            )
        completion = self._say(prompt)
        if completion is None or completion.error is not None:
            self._talk.take_back()
            reason = "interrupted" if completion is None else served_line(completion)
            _remark(f"{reason}; the question was taken back")
            return
        self._talk.answer(completion.text, _spoken(completion))
        cold_s = self._cold_s(prompt) if self._cold else None
        _remark(served_line(completion, cold_s=cold_s))

    def _say(self, prompt: list[int]) -> "Completion | None":
        """Print an answer as it comes; `None` if the user broke it off."""
        room = self._engine.max_request_tokens - len(prompt)
        params = replace(self._params, max_new_tokens=min(self._params.max_new_tokens, room))
        completion = None
        try:
            for chunk in self._engine.stream(prompt, params):
                click.echo(chunk.text, nl=False)
                completion = chunk.completion
        except KeyboardInterrupt:
            completion = None
        click.echo()
        return completion

    def _cold_s(self, prompt: list[int]) -> float | None:
        """Time to the first token of a prompt, had nothing of it been cached. Leaves the cache as it is."""
        one = replace(self._params, max_new_tokens=1)
        self._engine.add_request(prompt, one, read=False, write=False)
        while not self._engine.is_idle:
            for chunk in self._engine.step():
                if chunk.completion is not None:
                    return chunk.completion.ttft_s
        return None


def _spoken(completion: "Completion") -> list[int] | None:
    """The tokens of an answer's text; `None` where a stop text cut it."""
    if completion.finish_reason == "stop_text":
        return None
    ended = completion.finish_reason == "stop_token"
    return completion.token_ids[:-1] if ended else completion.token_ids


def _remark(text: str) -> None:
    click.secho(f"[{text}]", dim=True)
