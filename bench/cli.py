"""The command line: `python -m bench`."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from bench.benchmarks import BENCHMARKS
from bench.harness.drawing import draw
from bench.harness.environment import ROOT, Environment, describe
from bench.harness.markdown import page
from bench.harness.report import Report, verdicts
from bench.harness.table import render
from bench.options import Options, Size
from bench.peers.command import peers

EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path, resolve_path=True)
WIDTH = 200  # where the output is no terminal


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", "names", multiple=True, type=click.Choice(list(BENCHMARKS)), help="Run these only.")
@click.option(
    "--size",
    type=click.Choice(["tiny", "full"]),
    default="full",
    show_default=True,
    help="tiny: show that everything runs; full: numbers worth reading.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For all token material.")
@click.option(
    "--trace",
    type=EXISTING,
    help="A trace in the Mooncake format to replay instead of a generated one.",
)
@click.option("--agents", type=EXISTING, help="Agent runs to replay, a conversation of chat messages a line.")
@click.option("--tools", type=EXISTING, help="Schemas of the tools these agents had, a JSON list.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the JSON document here, too.",
)
@click.option(
    "--markdown",
    "markdown_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the tables here as Markdown, for bench/results.",
)
@click.option(
    "--pictures",
    "picture_folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Draw the pictures into this folder, as SVG.",
)
@click.pass_context
def main(
    context: click.Context,
    names: tuple[str, ...],
    size: Size,
    seed: int,
    trace: Path | None,
    agents: Path | None,
    tools: Path | None,
    json_file: Path | None,
    markdown_file: Path | None,
    picture_folder: Path | None,
) -> None:
    """Time radixcache beside its bounds, check every result, and end with one line of JSON.

    Timings never fail; wrong results do, with exit code 1.
    """
    if context.invoked_subcommand is not None:
        return
    options = Options(size=size, seed=seed, trace=_text(trace), agents=_text(agents), tools=_text(tools))
    environment = describe()
    reports = []
    for name in names or BENCHMARKS:
        click.echo(f"running {name} ...", err=True)
        reports.append(_isolated(name, options))
    console = _console()
    for report in reports:
        console.print(render(report))
    if markdown_file is not None:
        settings = f"size {size}, seed {seed}, page size {options.page_size}"
        markdown_file.write_text(page(environment, settings, reports), encoding="utf-8")
    if picture_folder is not None:
        for picture in (picture for report in reports for picture in report.pictures):
            (picture_folder / f"{picture.name}.svg").write_text(draw(picture), encoding="utf-8")
    _finish(environment, options, reports, json_file)


main.add_command(peers)


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


def _finish(
    environment: Environment, options: Options, reports: list[Report], json_file: Path | None
) -> None:
    trace, agents, tools = (
        None if path is None else Path(path).name for path in (options.trace, options.agents, options.tools)
    )
    shown = dataclasses.replace(options, trace=trace, agents=agents, tools=tools)
    document = {
        "format": "radixcache-bench-1",
        **environment,
        "seed": options.seed,
        "options": shown,
        "limits": [
            verdict | {"benchmark": report.name} for report in reports for verdict in verdicts(report)
        ],
        "benchmarks": reports,
    }
    line = msgspec.json.encode(document)
    if json_file is not None:
        json_file.write_bytes(line + b"\n")
    click.echo(line.decode())
    if any(report.error for report in reports):
        sys.exit(1)
