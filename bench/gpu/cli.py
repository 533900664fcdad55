"""The command line: `python -m bench.gpu`."""

import dataclasses
import sys
from pathlib import Path
from time import perf_counter

import click
import msgspec
import torch
from rich.console import Console

from bench.errors import BenchError
from bench.gpu.clock import Budget
from bench.gpu.contenders import contenders
from bench.gpu.correctness import Check, check_all
from bench.gpu.speed import Speed
from bench.harness.environment import Environment, describe, versions
from bench.harness.report import Report
from bench.harness.table import render
from bench.options import Options, Size
from radixcache.errors import RadixCacheError

WIDTH = 200
PACKAGES = ("torch", "flashinfer-python", "numpy", "radixcache")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--device", "device_name", default="cuda", show_default=True, help="Any device of torch.")
@click.option(
    "--backend",
    type=click.Choice(["flashinfer", "torch"]),
    help="What to try. By default flashinfer on CUDA, torch elsewhere.",
)
@click.option(
    "--size",
    type=click.Choice(["tiny", "full"]),
    help="tiny: show that everything runs; full: numbers worth reading. By default tiny on a CPU.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For all tensors.")
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=280.0,
    show_default=True,
    help="Begin nothing after so many seconds; the JSON names what was left out.",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write the JSON document here, too.",
)
def main(
    device_name: str,
    backend: str | None,
    size: Size | None,
    seed: int,
    seconds: float,
    json_file: Path | None,
) -> None:
    """Check paged attention on a GPU, time it where it is right, and end with one line of JSON.

    A wrong result ends the run with exit code 1, before anything is timed.
    """
    began = perf_counter()
    device = _device(device_name)
    backend = backend or ("flashinfer" if device.type == "cuda" else "torch")
    size = size or ("tiny" if device.type == "cpu" else "full")
    options, budget = Options(size=size, seed=seed), Budget(seconds)
    rivals = contenders(backend, device)
    checks: list[Check] = []
    reports: list[Report] = []
    try:
        checks.extend(_told(each) for each in check_all(rivals, device, options, budget))
        right = bool(checks) and all(each.holds for each in checks)
        if right:
            reports.append(_speed(Speed(rivals, device, options, budget), options))
    except (RadixCacheError, BenchError) as error:
        raise click.ClickException(str(error)) from error
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    for report in reports:
        console.print(render(report))
    document = {
        "format": "radixcache-gpu-1",
        **describe(),
        "versions": versions(PACKAGES),
        "device": _described(device),
        "backend": backend,
        "options": dataclasses.asdict(options) | {"seconds": seconds},
        "seconds": round(perf_counter() - began, 3),
        "right": right,
        "checks": [dataclasses.asdict(each) | {"holds": each.holds} for each in checks],
        "skipped": budget.skipped,
        "benchmarks": reports,
    }
    line = msgspec.json.encode(document)
    if json_file is not None:
        json_file.write_bytes(line + b"\n")
    click.echo(line.decode())
    if not right:
        sys.exit(1)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise click.BadParameter(str(error).splitlines()[0], param_hint="--device") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise click.ClickException("there is no CUDA device here; --device cpu shows that everything runs")
    return device


def _described(device: torch.device) -> Environment:
    if device.type != "cuda":
        return {"type": device.type, "threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(device)
    return {
        "type": device.type,
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "processors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "cuda": torch.version.cuda,
    }


def _told(check: Check) -> Check:
    state = "right" if check.holds else "WRONG"
    click.echo(f"{state}: {check.name}, error {check.error:.3g} x tolerance", err=True)
    return check


def _speed(speed: Speed, options: Options) -> Report:
    return Report(
        name="attention",
        question="what does one layer's attention take behind a cached prefix, with no cache, with no pages?",
        config={"page_size": options.page_size, "seed": options.seed},
        figures=tuple(speed.figures()),
        notes=(
            "Attention alone: projections, which the cache saves as well, are not timed here.",
            "The plan of a step is made once for all layers; it is timed apart.",
            "'No cache' computes prefix and suffix in one call; 'dense' is torch over contiguous KV.",
        ),
    )
