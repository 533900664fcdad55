"""The workload that the options of a command name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import msgspec

from radixcache.errors import InvalidConfig
from runtime.lab.order import first_requests
from runtime.workload import Poisson, TraceOptions, Workload, find_generator, load_trace
from runtime.workload.traces.tokenizers import ByteTokenizer, HuggingFaceTokenizer

_Settings = TypeVar("_Settings")


@dataclass(frozen=True, slots=True)
class WorkloadSource:
    """The workload options of a command, as something that another process can make workloads of.

    Attributes:
        items: Names and values of the options.
    """

    items: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, options: dict[str, Any]) -> "WorkloadSource":
        """What the options say, whatever their seed."""
        names = ("workload", "settings", "trace", "trace_format", "tokenizer", "session_rate", "first")
        return cls(tuple((name, options[name]) for name in names))

    def __call__(self, seed: int) -> Workload:
        """The workload of that seed; raises as `workload_of`."""
        return workload_of(dict(self.items) | {"seed": seed})[0]


def workload_of(options: dict[str, Any]) -> tuple[Workload, dict[str, Any]]:
    """What arrives, and where it comes from as JSON values for reports.

    Raises:
        InvalidConfig, UnknownName, TraceError: The message names the setting, or file and line.
    """
    if options["trace"] is None:
        workload, source = generate(options)
    else:
        workload, source = load(options, default_reading(options))
    return first_of(options, workload, source)


def first_of(
    options: dict[str, Any], workload: Workload, source: dict[str, Any]
) -> tuple[Workload, dict[str, Any]]:
    """What `--first` leaves of a workload, and what to say of it."""
    if options["first"] is None:
        return workload, source
    return first_requests(workload, options["first"]), source | {"first": options["first"]}


def generate(
    options: dict[str, Any], sizes: Mapping[str, Any] | None = None
) -> tuple[Workload, dict[str, Any]]:
    """A generated workload and where it comes from.

    Args:
        options: The generator's name, its settings and the seed.
        sizes: By name, a generator with the settings that are not given; `None`: as they are by default.

    Raises:
        UnknownName: No such generator.
        InvalidConfig: No such setting, or a value is of another type.
        WorkloadError: A value lies outside its range.
    """
    name = options["workload"]
    kind = find_generator(name)
    given, values = given_settings(options, kind)
    if sizes is not None:
        values = replace(sizes[name], **{each: getattr(values, each) for each in given})
    return values.generate(options["seed"]), {"generator": name, "settings": given}


def given_settings(options: dict[str, Any], kind: type[_Settings]) -> tuple[dict[str, str], _Settings]:
    """What `--set` says, as texts, and as settings of a kind of workload.

    Raises:
        InvalidConfig: No such setting, or a value is of another type.
        WorkloadError: A value lies outside its range.
    """
    given: dict[str, str] = {}
    for setting in options["settings"]:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidConfig(f"--set takes NAME=VALUE, got {setting!r}")
        given[name.replace("-", "_")] = value
    known = {each.name: each.type for each in fields(kind) if each.type in (int, float)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidConfig(
                f"workload {options['workload']!r} has no setting {name!r} to be given here, "
                f"it has {', '.join(sorted(known))}"
            )
        try:
            values[name] = msgspec.convert(value, known[name], strict=False)
        except msgspec.ValidationError as error:
            raise InvalidConfig(f"--set {name}={value}: {error}") from error
    return given, kind(**values)


def load(options: dict[str, Any], reading: TraceOptions) -> tuple[Workload, dict[str, Any]]:
    """A recorded workload and where it comes from.

    Raises:
        InvalidConfig: There are settings for a generator, too.
        UnknownName: No such format.
        TraceError: The trace, or the tokenizer for it, cannot be read.
    """
    if options["settings"]:
        raise InvalidConfig(f"--set is for generators, but --trace {options['trace']} was given")
    workload = load_trace(options["trace"], options["trace_format"], options=reading)
    return workload, {"trace": options["trace"].name}


def default_reading(options: dict[str, Any]) -> TraceOptions:
    """How traces are read: texts as bytes, or by the tokenizer that is given.

    Raises:
        TraceError: The tokenizer cannot be read.
    """
    path = options["tokenizer"]
    return TraceOptions(
        seed=options["seed"],
        arrivals=arrivals_of(options),
        tokenizer=ByteTokenizer() if path is None else HuggingFaceTokenizer(path),
    )


def arrivals_of(options: dict[str, Any]) -> Poisson:
    """When sessions start, where a trace does not say.

    Raises:
        WorkloadError: The rate is out of range.
    """
    return Poisson(rate_per_s=options["session_rate"])
