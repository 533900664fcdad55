"""`python -m bench peers`."""

import dataclasses
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from bench.benchmarks.traces import capacities, trace_of
from bench.errors import BenchError
from bench.harness.environment import ROOT, describe
from bench.options import Options, Size
from bench.peers.contender import Row
from bench.peers.contenders import CONTENDERS, OURS
from bench.peers.document import FORMAT, Document, Measured, Repetition, decode, rotated
from bench.peers.install import DEFAULT_FOLDER, PeersMissing, build, installed_versions, python_of
from bench.peers.oracle import Expected, reckon
from bench.peers.table import markdown
from bench.peers.worker import ROWS, Job, settings
from bench.publishing.documents import file_name, this_month

FILE = click.Path(dir_okay=False, writable=True, path_type=Path)
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option("--build", "build_first", is_flag=True, help="Install the peers first, into --folder.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    help="Where the peers are installed; build/peers by default.",
)
@click.option(
    "--contenders", "names", multiple=True, help="Run these and ours only (start of the label); repeatable."
)
@click.option("--rows", "rows", multiple=True, type=click.Choice(ROWS), help="Run these only; repeatable.")
@click.option("--repetitions", type=click.IntRange(1), default=5, show_default=True)
@click.option("--size", type=click.Choice(["tiny", "full"]), default="full", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--trace", type=EXISTING, help="As of the run.")
@click.option("--resume", type=EXISTING, help="Add the repetitions to those of this document.")
@click.option("--json", "json_file", type=FILE, help="Write the document here, too, after each repetition.")
@click.option(
    "--into",
    "folder_of_results",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Keep the document in this folder; where it is there, the repetitions are added.",
)
def peers(
    build_first: bool,
    folder: Path,
    names: tuple[str, ...],
    rows: tuple[Row, ...],
    repetitions: int,
    size: Size,
    seed: int,
    trace: Path | None,
    resume: Path | None,
    json_file: Path | None,
    folder_of_results: Path | None,
) -> None:
    """Time other engines' cache cores beside ours, in turn, one fresh process each and repetition."""
    if build_first:
        build(folder)
    options = Options(size=size, seed=seed, trace=None if trace is None else str(trace.resolve()))
    if folder_of_results is not None:
        json_file = folder_of_results / file_name("peers", describe(), this_month())
        resume = json_file if json_file.exists() else resume
    wanted = tuple(name.lower() for name in names)
    labels = [label for label in CONTENDERS if label == OURS or not names or label.lower().startswith(wanted)]
    try:
        interpreters = {
            label: sys.executable if label == OURS else str(python_of(folder)) for label in labels
        }
        document = _empty(options, folder)
        if resume is not None:
            document = document.extended(decode(resume.read_bytes()))
    except (PeersMissing, BenchError, msgspec.MsgspecError) as error:
        raise click.UsageError(str(error)) from error
    with tempfile.TemporaryDirectory() as temporary:
        wanted_rows = tuple(row for row in ROWS if row in rows or not rows)
        make_job = _preparation(options, folder, Path(temporary), wanted_rows)
        for _ in range(repetitions):
            order = rotated(labels, len(document.repetitions))
            repetition = _repeat(order, interpreters, make_job)
            document = dataclasses.replace(document, repetitions=(*document.repetitions, repetition))
            if json_file is not None:
                json_file.write_bytes(msgspec.json.encode(document) + b"\n")
    click.echo(markdown(document))
    for place, label, row, failure in document.errors():
        click.echo(f"repetition {place + 1}, {label}, {row} failed:\n{failure}", err=True)
    click.echo(msgspec.json.encode(document).decode())
    if document.errors():
        sys.exit(1)


def _empty(options: Options, folder: Path) -> Document:
    """The document without any repetition."""
    environment = msgspec.convert(describe(), type=_Environment)
    packages = {label: spec.package for label, spec in CONTENDERS.items()}
    return Document(
        format=FORMAT,
        cpu=environment.cpu,
        cores=environment.cores,
        system=environment.system,
        python=environment.python,
        versions=environment.versions,
        peers=installed_versions(folder, {*packages.values(), "torch"} - {OURS}),
        contenders=tuple(CONTENDERS),
        packages=packages,
        compiled=tuple(label for label, spec in CONTENDERS.items() if spec.compiled),
        seed=options.seed,
        options=dataclasses.replace(
            options, trace=None if options.trace is None else Path(options.trace).name
        ),
        config={**settings(options), "capacities": list(capacities(options))},
    )


class _Environment(msgspec.Struct):
    commit: str | None
    dirty: bool | None
    cpu: str
    cores: int
    system: str
    python: str
    versions: dict[str, str]


def _preparation(
    options: Options, folder: Path, temporary: Path, rows: Sequence[Row]
) -> Callable[[str], Job]:
    """What makes the job of a contender: the trace is written and its oracle reckoned once for all."""
    trace = trace_of(options)
    path = temporary / "trace.npz"
    trace.save(path)
    tokens = capacities(options)
    expected = (
        reckon(trace, tokens, options.page_size)
        if "replay" in rows
        else Expected(start_requests=0, start_pages=1, start_matched=0, matched={}, infinite_matched=0)
    )
    return lambda label: Job(label, tuple(rows), options, str(path), tokens, expected, str(folder.resolve()))


def _repeat(order: Sequence[str], interpreters: dict[str, str], make_job: Callable[[str], Job]) -> Repetition:
    """Each contender once, in that order."""
    environment = msgspec.convert(describe(), type=_Environment)
    measured: list[Measured] = []
    rows: tuple[str, ...] = ()
    for label in order:
        job = make_job(label)
        rows = job.rows
        click.echo(f"running {label} ...", err=True)
        measured.append(_measure(interpreters[label], job))
        click.echo(f"CPU seconds: {measured[-1].seconds}", err=True)
    return Repetition(commit=environment.commit, dirty=environment.dirty, rows=rows, measured=tuple(measured))


def _measure(python: str, job: Job) -> Measured:
    done = subprocess.run(  # noqa: S603 - our own program
        [python, "-m", "bench.peers.worker"],
        input=msgspec.json.encode(job),
        stdout=subprocess.PIPE,
        check=False,
        cwd=ROOT,
    )
    if done.returncode:
        error = f"the process ended with exit code {done.returncode}"
        return Measured(contender=job.contender, errors={"all": error})
    return msgspec.json.decode(done.stdout, type=Measured)
