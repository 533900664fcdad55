"""The command line: the only place that reads arguments."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from radixcache import EVICTION_POLICIES, RadixCacheError
from radixcache.errors import InvalidConfig
from runtime.cost import GPUS, MODELS, CostModel, find_gpu, find_model
from runtime.report import render as render_report
from runtime.result import SimulationResult, to_json
from runtime.simulation import ClosedLoop, Experiment, OpenLoop, Setup, run_experiment
from runtime.terminal import render as render_tables
from runtime.workload import (
    GENERATORS,
    TRACE_FORMATS,
    Poisson,
    TraceOptions,
    Workload,
    find_generator,
    load_trace,
)
from runtime.workload.traces.tokenizers import ByteTokenizer, HuggingFaceTokenizer
from scheduler import QUEUE_POLICIES, SchedulerConfig

_BAD_INPUT = 2


def main() -> None:
    """Run the command line; bad input ends it with one line and exit code 2."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit("radixcache: interrupted")
    except click.ClickException as error:
        _fail(error.format_message())
    except (RadixCacheError, OSError) as error:
        _fail(str(error))
    except MemoryError as error:
        _fail(f"out of memory: {error}")


def _fail(message: str) -> None:
    click.echo(f"radixcache: {' '.join(message.split())}", err=True)
    sys.exit(_BAD_INPUT)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="radixcache")
def cli() -> None:
    """A prefix KV-cache manager for LLM serving."""


def _names(table: Any) -> str:
    return ", ".join(table)


@cli.command()
@click.option("--workload", default="chat", show_default=True, help=f"Generator: {_names(GENERATORS)}.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the generator.")
@click.option("--trace", type=click.Path(path_type=Path), help="A recorded trace instead of a generator.")
@click.option("--format", "trace_format", help=f"Its format, if it cannot be told: {_names(TRACE_FORMATS)}.")
@click.option("--tokenizer", type=click.Path(path_type=Path), help="tokenizer.json for traces of texts.")
@click.option(
    "--session-rate",
    type=float,
    default=0.1,
    show_default=True,
    help="Sessions a second, where a trace has no common clock.",
)
@click.option("--model", default="Llama-3.1-8B", show_default=True, help=f"{_names(MODELS)}.")
@click.option("--gpu", default="H100-SXM", show_default=True, help=f"{_names(GPUS)}.")
@click.option("--tp", default=1, show_default=True, help="GPUs the model is split over.")
@click.option("--weight-dtype", default="bf16", show_default=True, help="Format of the weights.")
@click.option("--kv-dtype", default="bf16", show_default=True, help="Format of the KV.")
@click.option("--flops-fraction", type=float, help="Achieved share of peak FLOP/s.")
@click.option("--bandwidth-fraction", type=float, help="Achieved share of peak bandwidth.")
@click.option("--capacity", type=int, metavar="TOKENS", help="KV pool; by default what fits into the GPU.")
@click.option("--page-size", default=16, show_default=True, help="Tokens a page holds.")
@click.option("--eviction", default="lru", show_default=True, help=f"{_names(EVICTION_POLICIES)}.")
@click.option("--partial-reuse", is_flag=True, help="Copy starts of pages that agree.")
@click.option("--policy", default="fcfs", show_default=True, help=f"Queue order: {_names(QUEUE_POLICIES)}.")
@click.option("--token-budget", default=8192, show_default=True, help="Tokens computed in one step at most.")
@click.option("--max-running", default=256, show_default=True, help="Requests that run at once at most.")
@click.option("--rate-scale", type=float, help="Sessions start so many times as densely (open loop).")
@click.option("--users", type=int, help="So many users, each starting a session when the last one ended.")
@click.option("--seed", default=0, show_default=True, help="Seed of everything that is drawn.")
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="Run without a cache too.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for result.json and report.html."
)
def simulate(**options: Any) -> None:
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
    if options["users"] is not None and options["rate_scale"] is not None:
        raise InvalidConfig("--users and --rate-scale exclude each other: users set their own rate")
    users, rate_scale = options["users"], options["rate_scale"]
    arrivals = Poisson(rate_per_s=options["session_rate"])
    setup = Setup(
        cost=_cost_model(options),
        page_size=options["page_size"],
        capacity_tokens=options["capacity"],
        eviction=options["eviction"],
        partial_reuse=options["partial_reuse"],
        scheduler=SchedulerConfig(
            policy=options["policy"], token_budget=options["token_budget"], max_running=options["max_running"]
        ),
        pace=ClosedLoop(users) if users is not None else OpenLoop(1.0 if rate_scale is None else rate_scale),
        baseline=options["baseline"],
    )
    setup.cache_config()
    if options["trace"] is None:
        workload, source = _generate(options)
    elif options["settings"]:
        raise InvalidConfig(f"--set is for generators, but --trace {options['trace']} was given")
    else:
        workload, source = _load(options, arrivals)
    return Experiment(workload=workload, workload_config=source, setup=setup, seed=options["seed"])


def _cost_model(options: dict[str, Any]) -> CostModel:
    given = {
        name: options[name] for name in ("flops_fraction", "bandwidth_fraction") if options[name] is not None
    }
    return CostModel(
        model=find_model(options["model"]),
        gpu=find_gpu(options["gpu"]),
        tp=options["tp"],
        weight_dtype=options["weight_dtype"],
        kv_dtype=options["kv_dtype"],
        **given,
    )


def _generate(options: dict[str, Any]) -> tuple[Workload, dict[str, Any]]:
    kind = find_generator(options["workload"])
    given: dict[str, Any] = {}
    for setting in options["settings"]:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidConfig(f"--set takes NAME=VALUE, got {setting!r}")
        given[name.replace("-", "_")] = value
    known = sorted(each.name for each in fields(kind) if each.type in (int, float))  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise InvalidConfig(
                f"workload {options['workload']!r} has no setting {name!r} to be given here, it has {known}"
            )
    try:
        generator = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"--set {' '.join(options['settings'])}: {error}") from error
    return generator.generate(options["seed"]), {"generator": options["workload"], "settings": given}


def _load(options: dict[str, Any], arrivals: Poisson) -> tuple[Workload, dict[str, Any]]:
    tokenizer = (
        ByteTokenizer() if options["tokenizer"] is None else HuggingFaceTokenizer(options["tokenizer"])
    )
    trace_options = TraceOptions(seed=options["seed"], arrivals=arrivals, tokenizer=tokenizer)
    workload = load_trace(options["trace"], options["trace_format"], options=trace_options)
    return workload, {"trace": options["trace"].name}


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
