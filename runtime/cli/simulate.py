"""`radixcache simulate`: serve a workload with the cache and without."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from runtime.cli.options import (
    cache_options,
    hardware_options,
    serving_options,
    setup_of,
    workload_of,
    workload_options,
)
from runtime.report import render as render_report
from runtime.result import SimulationResult, to_json
from runtime.simulation import Experiment, run_experiment
from runtime.terminal import render as render_tables


@click.command(name="simulate")
@workload_options
@hardware_options
@cache_options
@serving_options
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="Run without a cache too.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for result.json and report.html."
)
def simulate_command(**options: Any) -> None:
    """Serve a workload with the cache and without, in simulated time."""
    experiment, folder = _experiment(options), options["out"]
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    with _progress(experiment) as on_progress:
        result = run_experiment(experiment, on_progress)
    console.print(render_tables(result))
    if folder is not None:
        for path in _write(result, folder):
            console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _experiment(options: dict[str, Any]) -> Experiment:
    setup = replace(setup_of(options), baseline=options["baseline"])
    setup.cache_config()
    workload, source = workload_of(options)
    return Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])


@contextmanager
def _progress(experiment: Experiment) -> Iterator[Any]:
    columns = (TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        total = experiment.workload.num_turns
        tasks = {label: progress.add_task(label, total=total) for label in experiment.labels}
        yield lambda label, settled: progress.advance(tasks[label], settled)


def _write(result: SimulationResult, folder: Path) -> list[Path]:
    data, report = folder / "result.json", folder / "report.html"
    data.write_bytes(to_json(result))
    report.write_text(render_report(result), encoding="utf-8")
    return [data, report]
