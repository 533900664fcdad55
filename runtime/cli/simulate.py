"""`radixcache simulate`: serve a workload with the cache and without."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from runtime.cli.options import (
    capacity_options,
    hardware_options,
    order_options,
    pace_options,
    page_options,
    scheduler_options,
    setup_of,
    workload_of,
    workload_options,
)
from runtime.cli.output import deliver, make_folder, output_options
from runtime.cli.progress import bars
from runtime.report import render as render_report
from runtime.request_table import check_suffix, request_table
from runtime.result import to_json
from runtime.simulation import Experiment, run_experiment
from runtime.terminal import render as render_tables


@click.command(name="simulate")
@workload_options
@hardware_options
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
    """Serve a workload with the cache and without, in simulated time."""
    experiment, requests_file = _experiment(options), options["requests_file"]
    if requests_file is not None:
        check_suffix(requests_file)
    make_folder(options)
    with bars(dict.fromkeys(experiment.labels, experiment.workload.num_turns)) as on_progress:
        result = run_experiment(experiment, on_progress)
    document = to_json(result)
    if requests_file is not None:
        requests_file.write_bytes(request_table(result, requests_file.suffix))
    deliver(
        options,
        document=document,
        tables=render_tables(result),
        files={"result.json": lambda: document, "report.html": lambda: render_report(result).encode()},
    )


def _experiment(options: dict[str, Any]) -> Experiment:
    setup = replace(setup_of(options), baseline=options["baseline"])
    setup.cache_config()
    workload, source = workload_of(options)
    return Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])
