"""`radixcache plan`: what a device can serve within latency limits, and what more cache would buy."""

from dataclasses import replace
from typing import Any

import click

from radixcache.errors import InvalidConfig
from runtime.cli.options import (
    capacity_options,
    hardware_options,
    order_options,
    page_options,
    refuse_idle_options,
    scheduler_options,
    setup_of,
    workload_options,
)
from runtime.cli.output import deliver, make_folder, output_options
from runtime.cli.progress import one_after_another
from runtime.cli.workloads import workload_of
from runtime.lab.planner import MORE_GIB, make_plan
from runtime.lab.probe import Limits
from runtime.report import render_study as render_page
from runtime.report.study_plan import plan_study
from runtime.simulation import Experiment, describe, notes_of, versions
from runtime.terminal import render_study as render_tables

_GPU = "L40S"
_NUM_SESSIONS = 400
"""Device and chat workload that go together: the one fills the other, in about a minute."""


@click.command(
    name="plan",
    short_help="Largest rate within latency limits.",
    context_settings={"default_map": {"gpu": _GPU}},
)
@workload_options
@hardware_options
@capacity_options
@page_options
@order_options
@scheduler_options
@click.option("--ttft", default=1.0, show_default=True, help="Limit of the time to first token, seconds.")
@click.option("--tpot", default=0.05, show_default=True, help="Limit of the time per output token, seconds.")
@click.option(
    "--percentile", default=99, show_default=True, help="So many percent of the requests keep each limit."
)
@click.option(
    "--by",
    type=click.Choice(["rate", "users"]),
    default="rate",
    show_default=True,
    help="Vary how densely sessions start, or how many users there are.",
)
@click.option(
    "--tolerance", default=0.05, show_default=True, help="Share by which two rates that are tried differ."
)
@click.option(
    "--pools",
    default=",".join(f"{gib:g}" for gib in MORE_GIB),
    show_default=True,
    metavar="GIB,…",
    help="How much larger (or smaller: -4) other pools are; empty for none.",
)
@output_options("plan.json", "plan.html")
def plan_command(**options: Any) -> None:
    """Largest rate within latency limits, and what another GiB of cache would buy.

    A rate means something only where the workload fills the GPU. The generated chat fills an L40S with 400
    sessions, in a minute or two; the H100-SXM of the other commands would take thousands, in every probe. So
    here L40S is the default of --gpu, and 400 that of --set num_sessions.
    """
    refuse_idle_options(options)
    limits = Limits(ttft_s=options["ttft"], tpot_s=options["tpot"], percentile=options["percentile"])
    more_gib = _numbers(options["pools"])
    setup = replace(setup_of(options), baseline=False)
    cache = setup.cache_config()
    workload, source = workload_of(options | {"settings": _settings(options)})
    experiment = Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])
    described = describe(experiment, cache)
    make_folder(options)
    with one_after_another(workload.num_turns) as on_progress:
        plan = make_plan(
            experiment,
            limits=limits,
            config={name: value for name, value in described.items() if name not in ("pace", "loop")},
            notes=notes_of(workload),
            versions=versions(),
            by=options["by"],
            tolerance=options["tolerance"],
            more_gib=more_gib,
            on_progress=on_progress,
        )
    document, study = plan.to_json(), plan_study(plan)
    deliver(
        options,
        document=document,
        tables=render_tables(study),
        files={"plan.json": lambda: document, "plan.html": lambda: render_page(study).encode()},
    )


def _settings(options: dict[str, Any]) -> tuple[str, ...]:
    """The settings of the generator; what is said later counts."""
    if options["workload"] != "chat" or options["trace"] is not None:
        return tuple(options["settings"])
    return (f"num_sessions={_NUM_SESSIONS}", *options["settings"])


def _numbers(text: str) -> list[float]:
    found = []
    for part in text.split(","):
        if not part.strip():
            continue
        try:
            value = float(part)
        except ValueError as error:
            raise InvalidConfig(f"--pools takes numbers of GiB, got {part.strip()!r}") from error
        if not abs(value) < 1e6 or value == 0:
            raise InvalidConfig(f"--pools takes numbers of GiB other than 0, below 1e6, got {part.strip()!r}")
        found.append(value)
    return found
