"""`radixcache simulate --engine torch`: the same workload on a real model, every step timed."""

from typing import TYPE_CHECKING, Any, Final

from radixcache.errors import InvalidConfig
from runtime.cli.model import DEFAULT_MODEL, device_memory, open_model, require_torch
from runtime.cli.options import pace_of, refuse_idle_options, scheduler_of, was_given
from runtime.cli.workloads import arrivals_of, default_reading, first_of, generate, given_settings, load
from runtime.simulation import Measurement, OnProgress, pool_of, run_measurement
from runtime.workload import TraceOptions, Workload
from runtime.workload.bfcl import BfclTasks
from runtime.workload.generators.small import SMALL_GENERATORS
from runtime.workload.traces import CHAT_MESSAGES, CodecTokenizer, sniff_format
from runtime.workload.vocabulary import in_vocabulary

if TYPE_CHECKING:
    from runtime.models import TextCodec
    from runtime.result import SimulationResult

BFCL: Final = "bfcl"
"""Name of the workload that only a real model can serve, because it has no answers."""

_DEFAULTS: Final = {"model": DEFAULT_MODEL, "token_budget": 512}
"""What is other than for a GPU in a data centre."""

_CAPACITY_TOKENS: Final = 16_384
_COST_MODEL_ONLY: Final = ("gpu", "tp", "weight_dtype", "kv_dtype", "flops_fraction", "bandwidth_fraction")
_TORCH_ONLY: Final = ("backend", "device", "dtype", "threads")


class PreparedMeasurement:
    """A measurement whose model is loaded and whose workload is made.

    Args:
        options: Those of `radixcache simulate`.

    Raises:
        BackendUnavailable: Torch is not installed.
        InvalidConfig, UnknownName, TraceError, WorkloadError: The message names the value.
        RadixCacheError: See `open_model`.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        require_torch()
        options = torch_defaults(options)
        refuse_idle_options(options, timeless=options["workload"] == BFCL)
        capacity = options["capacity"]
        cache = pool_of(
            _CAPACITY_TOKENS if capacity is None else capacity,
            page_size=options["page_size"],
            eviction=options["eviction"],
            partial_reuse=options["partial_reuse"],
        )
        scheduler, pace = scheduler_of(options), pace_of(options)
        from runtime.engine import TorchMachine

        model, text = open_model(options)
        self._machine = TorchMachine(model, options["model"], backend=options["backend"])
        workload, source = _workload(options, text, self._machine.vocab)
        self._measurement = Measurement(
            workload=workload,
            workload_config=source,
            cache=cache,
            capacity_from="default" if capacity is None else "given",
            scheduler=scheduler,
            pace=pace,
            baseline=options["baseline"],
            bounds=options["bounds"],
            seed=options["seed"],
        )

    @property
    def labels(self) -> list[str]:
        """The runs it makes."""
        return self._measurement.labels

    @property
    def num_turns(self) -> int:
        """Requests of each run."""
        return self._measurement.workload.num_turns

    def run(self, on_progress: OnProgress) -> "SimulationResult":
        """Make it; raises as `run_measurement`, and `MemoryError` where the device has no room for it."""
        with device_memory():
            return run_measurement(self._measurement, self._machine, on_progress)


def refuse_torch_options(options: dict[str, Any]) -> None:
    """Refuse what only `--engine torch` knows.

    Raises:
        InvalidConfig: Names the option.
    """
    _refuse(_TORCH_ONLY, "torch")
    if options["workload"] == BFCL and options["trace"] is None:
        raise InvalidConfig(f"the workload {BFCL!r} has no answers, a model must give them: --engine torch")


def torch_defaults(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with the defaults of `--engine torch` where nothing was given.

    Raises:
        InvalidConfig: An option of the cost model was given; names it.
    """
    _refuse(_COST_MODEL_ONLY, "cost-model")
    return options | {name: value for name, value in _DEFAULTS.items() if not was_given(name)}


def _refuse(names: tuple[str, ...], engine: str) -> None:
    for name in names:
        if was_given(name):
            raise InvalidConfig(f"--{name.replace('_', '-')} is for --engine {engine}")


def _workload(
    options: dict[str, Any], text: "TextCodec | None", vocab: int
) -> tuple[Workload, dict[str, Any]]:
    """What arrives, in tokens of the model, and where it comes from."""
    if options["trace"] is None and options["workload"] == BFCL:
        return first_of(options, *_bfcl(options, text))
    if options["trace"] is None:
        workload, source = generate(options, SMALL_GENERATORS)
    else:
        reading = _reading(options, text)
        workload, source = load(options, reading)
        name = options["trace_format"] or sniff_format(options["trace"])
        if name == CHAT_MESSAGES and reading.chat is not None:
            return first_of(options, workload, source)
    return first_of(options, in_vocabulary(workload, vocab), source)


def _reading(options: dict[str, Any], text: "TextCodec | None") -> TraceOptions:
    """How traces of texts are read: as the model reads them, unless another tokenizer is given."""
    if text is None or options["tokenizer"] is not None:
        return default_reading(options)
    return TraceOptions(
        seed=options["seed"],
        arrivals=arrivals_of(options),
        tokenizer=CodecTokenizer(options["model"], text),
        chat=text if text.has_chat_template else None,
    )


def _bfcl(options: dict[str, Any], text: "TextCodec | None") -> tuple[Workload, dict[str, Any]]:
    if text is None:
        raise InvalidConfig(
            f"the workload {BFCL!r} needs a model with a tokenizer, {options['model']} has none"
        )
    given, tasks = given_settings(options, BfclTasks)
    workload = tasks.load(text, arrivals_of(options), options["seed"])
    return workload, {"tasks": BFCL, "settings": given}
