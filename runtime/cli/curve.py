"""`radixcache curve`: the hit rate of a workload at every capacity."""

from dataclasses import asdict
from typing import Any

import click

from runtime.cli.options import (
    capacity_options,
    cost_model_of,
    hardware_options,
    refuse_idle_options,
    workload_options,
)
from runtime.cli.output import deliver, make_folder, output_options
from runtime.cli.progress import bars
from runtime.cli.workloads import workload_of
from runtime.lab.capacities import study_capacities
from runtime.lab.order import AnswerTimes
from runtime.report import render_study as render_page
from runtime.report.study_curve import curve_study
from runtime.simulation import Experiment, Setup, describe, versions
from runtime.terminal import render_study as render_tables

_KEPT = ("workload", "cost_model")


@click.command(name="curve", short_help="Hit rate at every capacity, and which is enough.")
@workload_options
@hardware_options
@capacity_options
@click.option("--page-size", default=16, show_default=True, help="Tokens a page holds.")
@click.option(
    "--first-token",
    "first_token_s",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds until an answer's first token: the longer, the more sessions are alive at once.",
)
@click.option(
    "--per-token",
    "token_s",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds for each further token of an answer.",
)
@click.option(
    "--points", type=click.IntRange(min=2), default=200, show_default=True, help="Points of the curve."
)
@click.option(
    "--optima",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="Capacities for which the optimum is reckoned.",
)
@output_options("curve.json", "curve.html")
def curve_command(**options: Any) -> None:
    """Hit rate at every capacity, the optimum, and which capacity is enough."""
    refuse_idle_options(options)
    answers = AnswerTimes(first_token_s=options["first_token_s"], token_s=options["token_s"])
    setup = Setup(
        cost=cost_model_of(options), page_size=options["page_size"], capacity_tokens=options["capacity"]
    )
    cache = setup.cache_config()
    workload, source = workload_of(options)
    experiment = Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])
    described = describe(experiment, cache)
    make_folder(options)
    with bars({"optimum": options["optima"] + 1}) as on_progress:
        found = study_capacities(
            workload,
            setup,
            config={name: described[name] for name in _KEPT}
            | {
                "page_size": cache.page_size,
                "capacity_from": described["cache"]["capacity_from"],
                "answers": asdict(answers),
            },
            seed=options["seed"],
            versions=versions(),
            answers=answers,
            num_points=options["points"],
            num_optima=options["optima"],
            on_progress=on_progress,
        )
    document, study = found.to_json(), curve_study(found)
    deliver(
        options,
        document=document,
        tables=render_tables(study),
        files={"curve.json": lambda: document, "curve.html": lambda: render_page(study).encode()},
    )
