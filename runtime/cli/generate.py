"""`radixcache generate`: answers of a model, and what the cache had to do with them."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from radixcache.errors import InvalidConfig
from runtime.cli.model import machine_options, model_options, open_engine, sampling_of, sampling_options
from runtime.cli.served import served_json, served_line
from runtime.document import to_bytes
from runtime.report.formatting import counted
from runtime.simulation import versions

if TYPE_CHECKING:
    from runtime.engine import Completion, SamplingParams, TorchMachine
    from runtime.models import TextCodec


@click.command(name="generate", short_help="Answer prompts with a model.")
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@model_options
@machine_options
@sampling_options
@click.option(
    "--chat/--raw",
    default=None,
    help="Whether prompts go through the model's chat template; by default where it has one.",
)
@click.option("--system", metavar="TEXT", help="System prompt, for the chat template.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Ask so many times, one time after the other; from the second on the cache has the prompts.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def generate_command(**options: Any) -> None:
    """Answer each PROMPT, or what stands on stdin; all prompts are served side by side."""
    prompts = options["prompts"] or (_from_stdin(),)
    params = sampling_of(options)
    engine, machine = open_engine(options)
    text = engine.text
    if text is None:
        raise InvalidConfig(f"the model {options['model']} has no tokenizer")
    chat = text.has_chat_template if options["chat"] is None else options["chat"]
    token_ids = [_encode(text, prompt, options["system"], chat=chat) for prompt in prompts]
    found = []
    for number in range(options["repeat"]):
        completions = engine.generate(token_ids, params)
        found.append(completions)
        if not options["as_json"]:
            _show(completions, number, options["repeat"])
    if options["as_json"]:
        click.echo(_document(options, machine, prompts, params, found, chat=chat), nl=False)
    failed = [each for completions in found for each in completions if each.error is not None]
    if failed:
        raise click.ClickException(
            f"{counted(len(failed), 'answer')} failed, the first because: {failed[0].error}"
        )


def _from_stdin() -> str:
    text = "" if sys.stdin.isatty() else sys.stdin.read().removesuffix("\n")
    if not text:
        raise InvalidConfig("there is no prompt: give it as an argument or on stdin")
    return text


def _encode(text: "TextCodec", prompt: str, system: str | None, *, chat: bool) -> list[int]:
    if not chat:
        if system is not None:
            raise InvalidConfig("--system needs a chat template, but prompts are taken as they are")
        return text.encode(prompt)
    before = [] if system is None else [{"role": "system", "content": system}]
    return text.encode_chat([*before, {"role": "user", "content": prompt}])


def _show(completions: "list[Completion]", number: int, num_times: int) -> None:
    for place, completion in enumerate(completions, start=1):
        of = f"prompt {place}" if len(completions) > 1 else ""
        time = f"time {number + 1}" if num_times > 1 else ""
        if of or time:
            click.secho(f"--- {', '.join(filter(None, (of, time)))}", bold=True)
        click.echo(completion.text)
        click.secho(f"[{served_line(completion)}]", dim=True)


def _document(
    options: dict[str, Any],
    machine: "TorchMachine",
    prompts: Sequence[str],
    params: "SamplingParams",
    found: "list[list[Completion]]",
    *,
    chat: bool,
) -> bytes:
    return to_bytes(
        {
            "schema": "radixcache.generation",
            "schema_version": 1,
            "versions": versions() | machine.versions(),
            "machine": machine.describe(),
            "prompts": list(prompts),
            "chat": chat,
            "system": options["system"],
            "cache": {"num_pages": options["pages"], "page_size": options["page_size"]},
            "sampling": {
                "max_new_tokens": params.max_new_tokens,
                "temperature": params.temperature,
                "top_k": params.top_k,
                "top_p": params.top_p,
                "seed": params.seed,
                "stop": params.stop,
            },
            "completions": [
                {"time": number, "prompt": place, **served_json(completion)}
                for number, completions in enumerate(found)
                for place, completion in enumerate(completions)
            ],
        }
    )
