"""`radixcache simulate`: serve a workload with the cache and without."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from runtime.cli.measured import PreparedMeasurement, refuse_torch_options
from runtime.cli.model import machine_options
from runtime.cli.options import (
    capacity_options,
    hardware_options,
    order_options,
    pace_options,
    page_options,
    refuse_idle_options,
    scheduler_options,
    setup_of,
    workload_options,
)
from runtime.cli.output import deliver, make_folder, output_options
from runtime.cli.progress import bars
from runtime.cli.workloads import workload_of
from runtime.report import render as render_report
from runtime.request_table import check_suffix, request_table
from runtime.result import SimulationResult, to_json
from runtime.simulation import Experiment, run_experiment
from runtime.terminal import render as render_tables


@click.command(name="simulate", short_help="Serve a workload with the cache and without.")
@click.option(
    "--engine",
    type=click.Choice(["cost-model", "torch"]),
    default="cost-model",
    show_default=True,
    help="What steps cost: reckoned for a GPU, or measured on a real model.",
)
@workload_options
@hardware_options
@machine_options
@capacity_options
@page_options
@order_options
@scheduler_options
@pace_options
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="Run without a cache too.")
@click.option(
    "--requests",
    "requests_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Every request with its times and tokens, as .csv or .jsonl.",
)
@output_options("result.json", "report.html")
def simulate_command(**options: Any) -> None:
    """Serve a workload with the cache and without: in simulated time, or on a real model.

    With --engine torch a model computes every step and the times are measured. Its generators have small
    sizes, --model is smollm2 and --token-budget 512 unless given; --workload bfcl takes the multi-turn tool
    tasks of the package bfcl-eval. A capacity of 16,384 tokens is the default there.
    """
    requests_file = options["requests_file"]
    if requests_file is not None:
        check_suffix(requests_file)
    result = _measure(options) if options["engine"] == "torch" else _simulate(options)
    document = to_json(result)
    if requests_file is not None:
        requests_file.write_bytes(request_table(result, requests_file.suffix))
    deliver(
        options,
        document=document,
        tables=render_tables(result),
        files={"result.json": lambda: document, "report.html": lambda: render_report(result).encode()},
    )


def _simulate(options: dict[str, Any]) -> SimulationResult:
    refuse_torch_options(options)
    refuse_idle_options(options)
    experiment = _experiment(options)
    make_folder(options)
    with bars(dict.fromkeys(experiment.labels, experiment.workload.num_turns)) as on_progress:
        return run_experiment(experiment, on_progress)


def _measure(options: dict[str, Any]) -> SimulationResult:
    measurement = PreparedMeasurement(options)
    make_folder(options)
    with bars(dict.fromkeys(measurement.labels, measurement.num_turns)) as on_progress:
        return measurement.run(on_progress)


def _experiment(options: dict[str, Any]) -> Experiment:
    setup = replace(setup_of(options), baseline=options["baseline"])
    setup.cache_config()
    workload, source = workload_of(options)
    return Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])
