"""`python -m bench report`."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from bench.errors import BenchError
from bench.harness.environment import ROOT
from bench.publishing.tree import everything, made_of

FILES = click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True)


@click.command()
@click.argument("files", nargs=-1, type=FILES)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 where a page differs.")
def report(files: tuple[Path, ...], check: bool) -> None:
    """Write the pages and pictures of result files, and the parts of README that come from them.

    With FILES: their pages and pictures only, beside them.
    """
    try:
        made = list(everything() if not files else _of(files))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    differing = list(differences(made))
    for path in differing:
        click.echo(f"{'differs' if check else 'written'}: {_shown(path)}")
    if check:
        sys.exit(1 if differing else 0)
    for path, text in made:
        path.write_text(text, encoding="utf-8")


def differences(made: Iterable[tuple[Path, str]]) -> Iterator[Path]:
    """The files that do not hold the text that they should."""
    for path, text in made:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield path


def _of(files: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for file in files:
        yield from made_of(file)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
