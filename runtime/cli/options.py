"""Options that several commands share, and what they say."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from radixcache import EVICTION_POLICIES
from radixcache.errors import InvalidConfig
from runtime.cost import GPUS, MODELS, CostModel, find_gpu, find_model
from runtime.cost.dtypes import DTYPE_BYTES
from runtime.simulation import ClosedLoop, OpenLoop, Pace, Setup
from runtime.workload import GENERATORS, TRACE_FORMATS
from scheduler import QUEUE_POLICIES, PolicyOptions, SchedulerConfig

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DEFAULTS: Final = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)

DEFAULT_GPU: Final = "H100-SXM"


def _names(table: Any) -> str:
    return ", ".join(table)


_DTYPES: Final = _names(DTYPE_BYTES)
_EVICTIONS: Final = _names(EVICTION_POLICIES)
_FRACTIONS: Final = {field.name: field.default for field in fields(CostModel)}

_WORKLOAD = (
    click.option("--workload", default="chat", show_default=True, help=f"Generator: {_names(GENERATORS)}."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the generator, such as num_sessions=100; may be given several times.",
    ),
    click.option("--trace", type=click.Path(path_type=Path), help="A recorded trace instead of a generator."),
    click.option(
        "--format",
        "trace_format",
        help=f"Format of --trace, if it cannot be told: {_names(TRACE_FORMATS)}.",
    ),
    click.option("--tokenizer", type=click.Path(path_type=Path), help="tokenizer.json for traces of texts."),
    click.option(
        "--session-rate",
        type=float,
        default=0.1,
        show_default=True,
        help="Sessions a second, for a trace without a common clock.",
    ),
    click.option("--seed", default=0, show_default=True, help="Seed of everything that is drawn."),
    click.option(
        "--first", type=click.IntRange(min=1), metavar="N", help="Only the N requests that arrive first."
    ),
)
_HARDWARE = (
    click.option("--model", default="Llama-3.1-8B", show_default=True, help=f"Model: {_names(MODELS)}."),
    click.option("--gpu", default=DEFAULT_GPU, show_default=True, help=f"GPU: {_names(GPUS)}."),
    click.option("--tp", default=1, show_default=True, help="Number of GPUs the model is split over."),
    click.option(
        "--weight-dtype",
        default="bf16",
        show_default=True,
        help=f"Type of the weights: {_DTYPES}.",
    ),
    click.option(
        "--kv-dtype",
        default="bf16",
        show_default=True,
        help=f"Type of the KV: {_DTYPES}.",
    ),
    click.option(
        "--flops-fraction",
        type=float,
        metavar="SHARE",
        help=f"Achieved share of peak FLOP/s; by default {_FRACTIONS['flops_fraction']}.",
    ),
    click.option(
        "--bandwidth-fraction",
        type=float,
        metavar="SHARE",
        help=f"Achieved share of peak memory bandwidth; by default {_FRACTIONS['bandwidth_fraction']}.",
    ),
)
_CAPACITY = (
    click.option(
        "--capacity",
        type=int,
        metavar="TOKENS",
        help="Size of the KV pool; by default what fits into the GPU.",
    ),
)
_PAGES = (
    click.option("--page-size", default=16, show_default=True, help="Tokens a page holds."),
    click.option(
        "--partial-reuse",
        is_flag=True,
        help="Where only the first tokens of a page agree, copy them.",
    ),
)
_EVICTION = (
    click.option(
        "--eviction",
        default="lru",
        show_default=True,
        help=f"Eviction policy: {_EVICTIONS}.",
    ),
)
_POLICY = (
    click.option(
        "--policy", default="fcfs", show_default=True, help=f"Queue order: {_names(QUEUE_POLICIES)}."
    ),
)
_SCHEDULER = (
    click.option(
        "--token-budget", default=8192, show_default=True, help="Tokens computed in one step at most."
    ),
    click.option(
        "--chunk",
        type=int,
        metavar="TOKENS",
        help="Tokens of one prompt in one step at most; by default --token-budget.",
    ),
    click.option("--max-running", default=256, show_default=True, help="Requests that run at once at most."),
    click.option(
        "--max-waiting", type=int, metavar="N", help="Requests that wait at most; more are refused."
    ),
    click.option(
        "--max-overtakes",
        type=int,
        metavar="N",
        help="How often a request may be overtaken; by default 512, or as many as wait when it arrives.",
    ),
    click.option(
        "--in-flight-sharing/--no-in-flight-sharing",
        default=True,
        show_default=True,
        help="Wait for a page that a running request is computing.",
    ),
    click.option(
        "--k",
        type=click.IntRange(min=1),
        default=PolicyOptions().k,
        show_default=True,
        help="k-lpm: the oldest comes first once in k admissions.",
    ),
    click.option(
        "--quantum",
        type=click.IntRange(min=1),
        default=PolicyOptions().quantum,
        show_default=True,
        help="fair: tokens a client may be served for before the others are.",
    ),
)
_PACE = (
    click.option(
        "--rate-scale",
        type=float,
        help="Sessions start so many times as densely (open loop); by default 1.",
    ),
    click.option(
        "--users",
        type=int,
        help="So many users, each starting a session when the last one ended.",
    ),
)
_BOUNDS = (
    click.option(
        "--bounds/--no-bounds",
        default=True,
        show_default=True,
        help="Reckon hit / ceiling and hit / optimum of each run.",
    ),
)


_FOR_TRACES: Final = ("trace_format", "tokenizer", "session_rate")


def workload_options(command: _Command) -> _Command:
    """What arrives."""
    return _with(command, _WORKLOAD)


def hardware_options(command: _Command) -> _Command:
    """What it runs on."""
    return _with(command, _HARDWARE)


def capacity_options(command: _Command) -> _Command:
    """The size of the pool."""
    return _with(command, _CAPACITY)


def page_options(command: _Command) -> _Command:
    """The cache's pages."""
    return _with(command, _PAGES)


def order_options(command: _Command) -> _Command:
    """Who is evicted first, and who is served first."""
    return _with(command, _EVICTION + _POLICY)


def scheduler_options(command: _Command) -> _Command:
    """How requests are served, whatever their order."""
    return _with(command, _SCHEDULER + _BOUNDS)


def pace_options(command: _Command) -> _Command:
    """When sessions start."""
    return _with(command, _PACE)


def _with(command: _Command, options: tuple[Callable[[_Command], _Command], ...]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def was_given(name: str) -> bool:
    """Whether the user gave an option of the command that runs."""
    return click.get_current_context().get_parameter_source(name) not in _DEFAULTS


def refuse_idle_options(options: dict[str, Any], *, timeless: bool = False) -> None:
    """Refuse options of the workload that would change nothing.

    Args:
        options: Those of the command.
        timeless: Whether the workload is no trace, but comes without times as some traces do.

    Raises:
        InvalidConfig: Names the option.
    """
    if options["trace"] is not None:
        if was_given("workload"):
            raise InvalidConfig(f"--workload names a generator, but --trace {options['trace']} was given")
        return
    for name in _FOR_TRACES:
        if was_given(name) and not (timeless and name == "session_rate"):
            raise InvalidConfig(f"--{name.removeprefix('trace_').replace('_', '-')} is for --trace")


def setup_of(options: dict[str, Any]) -> Setup:
    """How a workload is served. What a command does not offer has its default.

    Raises:
        InvalidConfig: A setting is out of range, or two exclude each other.
    """
    return Setup(
        pace=pace_of(options),
        cost=cost_model_of(options),
        page_size=options["page_size"],
        capacity_tokens=options.get("capacity"),
        eviction=options.get("eviction", "lru"),
        partial_reuse=options["partial_reuse"],
        scheduler=scheduler_of(options),
        bounds=options["bounds"],
    )


def scheduler_of(options: dict[str, Any]) -> SchedulerConfig:
    """Settings of the scheduler.

    Raises:
        InvalidConfig: One is out of range.
    """
    return SchedulerConfig(
        policy=options.get("policy", "fcfs"),
        policy_options=PolicyOptions(k=options["k"], quantum=options["quantum"]),
        token_budget=options["token_budget"],
        prefill_chunk_tokens=options["chunk"],
        max_running=options["max_running"],
        max_waiting=options["max_waiting"],
        max_overtakes=options["max_overtakes"],
        share_in_flight=options["in_flight_sharing"],
    )


def pace_of(options: dict[str, Any]) -> Pace:
    """When sessions start.

    Raises:
        InvalidConfig: A setting is out of range, or two exclude each other.
    """
    users, rate_scale = options.get("users"), options.get("rate_scale")
    if users is not None and rate_scale is not None:
        raise InvalidConfig("--users and --rate-scale exclude each other: users set their own rate")
    return ClosedLoop(users) if users is not None else OpenLoop(1.0 if rate_scale is None else rate_scale)


def cost_model_of(options: dict[str, Any]) -> CostModel:
    """Model and GPU, and what a step costs on them.

    Raises:
        InvalidConfig, UnknownName: The message names the value.
    """
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
