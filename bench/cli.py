"""The command line: `python -m bench`."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.harness.environment import ROOT, Environment, describe
from bench.harness.report import Report
from bench.harness.table import render
from bench.instructions.command import instructions
from bench.options import Options, Size
from bench.peers.command import peers
from bench.publishing.command import report as report_command
from bench.publishing.documents import Results, file_name, results_of, save, this_month
from bench.suites import SUITES, Suite

EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True)
WIDTH = 200  # where the output is no terminal


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def main(context: click.Context) -> None:
    """Time radixcache beside its bounds and other engines' caches, and check every result.

    Timings never fail; wrong results do, with exit code 1. Without a command: what there is to run.
    """
    if context.invoked_subcommand is None:
        _list(_console())


def _list(console: Console) -> None:
    table = Table(title="python -m bench SUITE", title_justify="left")
    for column in ("suite", "question", "benchmarks"):
        table.add_column(column)
    for name, suite in SUITES.items():
        table.add_row(name, suite.question, ", ".join(suite.benchmarks))
    table.add_row("all", "All of these.", "")
    for name, command in main.commands.items():
        if name not in SUITES and name != "all":
            table.add_row(name, command.get_short_help_str(limit=WIDTH), "")
    console.print(table)


def _run(
    suite: str,
    *,
    names: tuple[str, ...],
    size: Size,
    seed: int,
    trace: Path | None,
    agents: Path | None,
    tools: Path | None,
    json_file: Path | None,
    folder: Path | None,
) -> None:
    options = Options(size=size, seed=seed, trace=_text(trace), agents=_text(agents), tools=_text(tools))
    environment = describe()
    reports = []
    for name in names or _benchmarks(suite):
        click.echo(f"running {name} ...", err=True)
        reports.append(_isolated(name, options))
        if folder is not None:
            _keep(results_of(suite, environment, options, reports[-1:]), environment, folder)
    console = _console()
    for report in reports:
        console.print(render(report))
    results = results_of(suite, environment, options, reports)
    line = msgspec.json.encode(results)
    if json_file is not None:
        json_file.write_bytes(line + b"\n")
    click.echo(line.decode())
    if any(report.error for report in reports):
        sys.exit(1)


def _benchmarks(suite: str) -> tuple[str, ...]:
    if suite in SUITES:
        return SUITES[suite].benchmarks
    return tuple(name for part in SUITES.values() for name in part.benchmarks)


def _keep(results: Results, environment: Environment, folder: Path) -> None:
    """Write what did not fail into the file of its suite."""
    for theme, suite in SUITES.items():
        runs = [run for run in results.runs if run.report.name in suite.benchmarks and not run.report.error]
        if runs:
            save(Results(suite=theme, runs=runs), folder / file_name(theme, environment, this_month()))


def _isolated(name: str, options: Options) -> Report:
    """Run a benchmark in a fresh process, so that none inherits the heap of another."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "bench.worker", name],
        input=msgspec.json.encode(options),
        stdout=subprocess.PIPE,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        return Report(name=name, question="", error=f"the process ended with exit code {done.returncode}")
    return msgspec.json.decode(done.stdout, type=Report)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _console() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every suite takes."""
    for option in reversed(
        (
            click.option(
                "--size",
                type=click.Choice(["tiny", "full"]),
                default="full",
                show_default=True,
                help="tiny: show that everything runs; full: numbers worth reading.",
            ),
            click.option(
                "--seed", type=click.IntRange(0), default=0, show_default=True, help="For all token material."
            ),
            click.option(
                "--trace", type=EXISTING, help="A trace in the Mooncake format instead of a generated one."
            ),
            click.option(
                "--agents",
                type=EXISTING,
                help="Agent runs, a conversation of chat messages a line (eviction_sessions: any sessions).",
            ),
            click.option("--tools", type=EXISTING, help="Schemas of these agents' tools, a JSON list."),
            click.option(
                "--json",
                "json_file",
                type=click.Path(dir_okay=False, writable=True, path_type=Path),
                help="Write the JSON document here, too.",
            ),
            click.option(
                "--into",
                "folder",
                type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
                help="Keep the results in this folder, a file a suite; other benchmarks in such a file stay.",
            ),
        )
    ):
        command = option(command)
    return command


def _add_suite(name: str, suite: Suite | None) -> None:
    choices = click.Choice(list(_benchmarks(name)))

    @main.command(name, help="All suites below." if suite is None else suite.question)
    @click.option("--only", "names", multiple=True, type=choices, help="Run these only.")
    @_options
    def run_suite(**settings: Any) -> None:
        _run(name, **settings)


for _name, _suite in SUITES.items():
    _add_suite(_name, _suite)
_add_suite("all", None)
main.add_command(peers)
main.add_command(instructions)
main.add_command(report_command)
