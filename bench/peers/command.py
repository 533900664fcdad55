"""`python -m bench peers`."""

import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec
from rich.console import Console

from bench.benchmarks.traces import capacities, trace_of
from bench.harness.environment import ROOT, describe
from bench.harness.report import Report
from bench.options import Options, Size
from bench.peers.install import DEFAULT_FOLDER, PeersMissing, build, python_of
from bench.peers.table import markdown, render
from bench.peers.worker import Job, contenders

OURS = "radixcache"


@click.command()
@click.option("--build", "build_first", is_flag=True, help="Install the peers first, into --folder.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    help="Where the peers are installed; build/peers by default.",
)
@click.option("--only", "names", multiple=True, help="Run these and ours only (start of the label).")
@click.option("--size", type=click.Choice(["tiny", "full"]), default="full", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="As of the run.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
@click.option("--markdown", "markdown_file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
def peers(
    build_first: bool,
    folder: Path,
    names: tuple[str, ...],
    size: Size,
    seed: int,
    trace: Path | None,
    json_file: Path | None,
    markdown_file: Path | None,
) -> None:
    """Time other engines' cache cores beside ours, one fresh process each, in one run."""
    if build_first:
        build(folder)
    options = Options(size=size, seed=seed, trace=None if trace is None else str(trace.resolve()))
    labels = [
        label
        for label in contenders(folder)
        if label == OURS or not names or label.lower().startswith(tuple(name.lower() for name in names))
    ]
    try:
        interpreters = {label: _interpreter(label, folder) for label in labels}
    except PeersMissing as error:
        raise click.UsageError(str(error)) from error
    reports = _measure(interpreters, options, folder)
    for report in reports:
        if report.error is not None:
            click.echo(f"{report.name} failed:\n{report.error}", err=True)
    Console(width=None if sys.stdout.isatty() else 240).print(render(reports))
    if markdown_file is not None:
        markdown_file.write_text(markdown(reports), encoding="utf-8")
    document = {"format": "radixcache-bench-peers-1", **describe(), "seed": seed, "contenders": reports}
    line = msgspec.json.encode(document)
    if json_file is not None:
        json_file.write_bytes(line + b"\n")
    click.echo(line.decode())
    if any(report.error for report in reports):
        sys.exit(1)


def _interpreter(label: str, folder: Path) -> str:
    return sys.executable if label == OURS else str(python_of(folder))


def _measure(interpreters: dict[str, str], options: Options, folder: Path) -> list[Report]:
    reports = []
    with tempfile.TemporaryDirectory() as temporary:
        trace = Path(temporary) / "trace.npz"
        trace_of(options).save(trace)
        for label, python in interpreters.items():
            click.echo(f"running {label} ...", err=True)
            job = Job(label, options, str(trace), capacities(options), str(folder.resolve()))
            done = subprocess.run(  # noqa: S603 - our own program
                [python, "-m", "bench.peers.worker"],
                input=msgspec.json.encode(job),
                stdout=subprocess.PIPE,
                check=False,
                cwd=ROOT,
            )
            error = f"the process ended with exit code {done.returncode}"
            reports.append(
                Report(name=label, question="", error=error)
                if done.returncode
                else msgspec.json.decode(done.stdout, type=Report)
            )
    return reports
