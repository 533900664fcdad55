"""Where a command's results go: tables or one JSON document to stdout, files into a folder."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from rich.console import Console, RenderableType

# Columns where output is no terminal: room for the widest table without breaking words.
_PIPE_SIZE: Final = (120, 24)

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_options(*names: str) -> Callable[[_Command], _Command]:
    """`--out` for a folder with files of these names, and `--json`."""

    def decorate(command: _Command) -> _Command:
        kind = click.Path(path_type=Path, file_okay=False)
        command = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(
            command
        )
        return click.option("--out", type=kind, help=f"Folder for {' and '.join(names)}.")(command)

    return decorate


def make_folder(options: Mapping[str, Any]) -> None:
    """Make the folder of `--out`, before any work is done.

    Raises:
        OSError: It cannot be made.
    """
    if options["out"] is not None:
        options["out"].mkdir(parents=True, exist_ok=True)


def console() -> Console:
    """Where tables for people go."""
    return Console(width=shutil.get_terminal_size(_PIPE_SIZE).columns)


def deliver(
    options: Mapping[str, Any],
    *,
    document: bytes,
    tables: RenderableType,
    files: Mapping[str, Callable[[], bytes]],
) -> None:
    """Write what a command found.

    Args:
        options: The options of the command.
        document: The JSON document.
        tables: The same for people.
        files: Files for the folder of `--out`: name, and what makes the content.

    Raises:
        OSError: A file cannot be written.
    """
    shown = console()
    paths = []
    for name, content in files.items() if options["out"] is not None else ():
        paths.append(options["out"] / name)
        paths[-1].write_bytes(content())
    if options["as_json"]:
        click.echo(document, nl=False)
        return
    shown.print(tables)
    for path in paths:
        shown.print(f"wrote {path}", highlight=False, soft_wrap=True)
