"""`python -m bench instructions`."""

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from bench.errors import BenchError, Unavailable
from bench.harness.environment import describe
from bench.instructions.baselines import FILE, accept, load, save
from bench.instructions.guard import Outcome, guard
from bench.instructions.table import render
from bench.instructions.verdicts import TOLERANCE

WIDTH = 140  # where the output is no terminal


@click.command()
@click.option("--accept", "accepts", is_flag=True, help="Make what was counted the baseline.")
@click.option("--reason", help="Why the change is right; goes into the file with it.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
@click.option(
    "--baselines",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=FILE,
    help="Another file than bench/instructions/baselines.json.",
)
def instructions(*, accepts: bool, reason: str | None, json_file: Path | None, file: Path) -> None:
    """Count the instructions of the hot verbs under valgrind and compare them with the baselines.

    Exit code 1 where a count is off by more than 5 %, in either direction, or a promise about complexity is
    missed. Skipped, with exit code 0, where a tool or the baselines for this machine are missing.
    """
    if accepts != bool(reason and reason.strip()):
        raise click.UsageError("--accept and --reason go together")
    try:
        outcome = guard(file, needs_baseline=not accepts)
    except Unavailable as missing:
        if accepts:
            raise click.ClickException(str(missing)) from missing
        click.echo(f"skipped: {missing}")
        _write(json_file, {"skipped": str(missing)})
        return
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    Console(width=None if sys.stdout.isatty() else WIDTH).print(render(outcome.changes, outcome.grown))
    click.echo(f"{outcome.counts.cpu_seconds:.0f} s of CPU time")
    _write(json_file, _document(outcome))
    if reason is not None and accepts:
        commit = describe()["commit"]
        assert commit is None or isinstance(commit, str)
        save(accept(load(file), outcome.key, outcome.changes, reason.strip(), commit), file)
        click.echo(f"accepted into {file.name}")
        if not all(each.holds for each in outcome.grown):
            raise click.ClickException("a promise about complexity is missed; that cannot be accepted")
    elif outcome.failures:
        click.echo('a justified change: python -m bench instructions --accept --reason "..."')
        sys.exit(1)


def _document(outcome: Outcome) -> dict[str, object]:
    return {
        "format": "radixcache-instructions-1",
        **describe(),
        "key": outcome.key,
        "tolerance": TOLERANCE,
        "operations": [
            {"name": each.operation, "before": each.before, "now": each.now, "verdict": each.verdict}
            for each in outcome.changes
        ],
        "growth": [
            {
                "small": each.growth.small,
                "large": each.growth.large,
                "factor": each.factor,
                "holds": each.holds,
            }
            for each in outcome.grown
        ],
        "cpu_seconds": outcome.counts.cpu_seconds,
    }


def _write(json_file: Path | None, document: dict[str, object]) -> None:
    if json_file is not None:
        json_file.write_bytes(msgspec.json.encode(document) + b"\n")
