"""`radixcache compare`: policies, capacities and seeds side by side."""

import os
from typing import Any, Final

import click

from radixcache import EVICTION_POLICIES, RadixCacheError
from radixcache.errors import InvalidConfig, UnknownName
from runtime.cli.options import (
    hardware_options,
    pace_options,
    page_options,
    refuse_idle_options,
    scheduler_options,
    setup_of,
    workload_options,
)
from runtime.cli.output import deliver, make_folder, output_options
from runtime.cli.progress import bars
from runtime.cli.workloads import WorkloadSource, workload_of
from runtime.lab.comparison import Comparison, Grid, compare
from runtime.report import render_study as render_page
from runtime.report.study_compare import compare_study
from runtime.simulation import Experiment, Setup, describe, notes_of, versions
from runtime.terminal import render_study as render_tables
from scheduler import QUEUE_POLICIES

_VARIED: Final = {
    "cache": ("num_pages", "capacity_tokens", "capacity_from", "eviction"),
    "scheduler": ("policy",),
}


class CellsFailed(RadixCacheError, RuntimeError):
    """Some simulations of a comparison failed; the others are reported."""


@click.command(name="compare", short_help="Policies, capacities and seeds side by side.")
@workload_options
@hardware_options
@page_options
@scheduler_options
@pace_options
@click.option(
    "--evictions",
    default="lru",
    show_default=True,
    metavar="NAME,…",
    help=f"Eviction policies, of {', '.join(EVICTION_POLICIES)}; or all.",
)
@click.option(
    "--policies",
    default="fcfs,lpm",
    show_default=True,
    metavar="NAME,…",
    help=f"Queue orders, of {', '.join(QUEUE_POLICIES)}; or all.",
)
@click.option(
    "--capacities",
    default="25%,50%,100%",
    show_default=True,
    metavar="TOKENS,…",
    help="Pools, in tokens or as shares of what fits into the GPU.",
)
@click.option("--seeds", default=3, show_default=True, metavar="N", help="Number of seeds, from --seed on.")
@click.option(
    "--warmup",
    default=0.1,
    show_default=True,
    help="Share of the requests, first arrivals first, that are left out of the metrics.",
)
@click.option("--workers", type=int, help="Processes at once; by default one for each CPU.")
@output_options("result.json", "report.html")
def compare_command(**options: Any) -> None:
    """A grid of policies, capacities and seeds on one workload, in parallel processes."""
    refuse_idle_options(options)
    setup = setup_of(options)
    grid = _grid(options, setup)
    workload, source = workload_of(options)
    experiment = Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])
    workers = os.cpu_count() or 1 if options["workers"] is None else options["workers"]
    make_folder(options)
    with bars({"simulations": len(grid.cells())}) as on_progress:
        found = compare(
            WorkloadSource.of(options),
            setup,
            grid,
            config=_config(experiment),
            notes=notes_of(workload),
            versions=versions(),
            warmup=options["warmup"],
            workers=workers,
            on_done=lambda _: on_progress("simulations", 1),
        )
    _deliver(options, found)


def _deliver(options: dict[str, Any], found: Comparison) -> None:
    document, study = found.to_json(), compare_study(found)
    deliver(
        options,
        document=document,
        tables=render_tables(study),
        files={"result.json": lambda: document, "report.html": lambda: render_page(study).encode()},
    )
    if found.failed:
        first = found.failed[0]
        raise CellsFailed(
            f"{len(found.failed)} of {len(found.cells)} simulations failed, the first ({first.spec.name}) "
            f"because: {first.error}"
        )


def _config(experiment: Experiment) -> dict[str, Any]:
    """What is the same in every cell."""
    config = describe(experiment, experiment.setup.cache_config())
    for part, names in _VARIED.items():
        config[part] = {name: value for name, value in config[part].items() if name not in names}
    return config


def _grid(options: dict[str, Any], setup: Setup) -> Grid:
    if options["seeds"] < 1:
        raise InvalidConfig(f"the number of seeds is at least 1, got {options['seeds']}")
    return Grid(
        evictions=_names("eviction policy", options["evictions"], list(EVICTION_POLICIES)),
        policies=_names("queue policy", options["policies"], list(QUEUE_POLICIES)),
        capacities=tuple(_capacity(text, setup) for text in _parts(options["capacities"])),
        seeds=tuple(range(options["seed"], options["seed"] + options["seeds"])),
    )


def _names(kind: str, text: str, known: list[str]) -> tuple[str, ...]:
    if text.strip() == "all":
        return tuple(known)
    for name in _parts(text):
        if name not in known:
            raise UnknownName(kind, name, known)
    return tuple(_parts(text))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _capacity(text: str, setup: Setup) -> int:
    """Tokens of a pool, whole pages."""
    page_size = setup.cache_config().page_size
    try:
        if text.endswith("%"):
            pool = setup.cache_config().num_pages * page_size
            tokens = int(pool * float(text.removesuffix("%")) / 100)
        else:
            tokens = int(text)
    except (ValueError, OverflowError) as error:
        raise InvalidConfig(f"--capacities takes tokens or shares such as 50%, got {text!r}") from error
    if tokens < page_size:
        raise InvalidConfig(f"a capacity of {tokens} tokens ({text}) holds no page of {page_size} tokens")
    return tokens // page_size * page_size
