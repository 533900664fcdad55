"""`radixcache trace`: look at recorded traffic, check it, convert it, and take out what it was made of."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from radixcache.errors import InvalidArgument, InvalidConfig
from runtime.cli.output import console
from runtime.document import to_bytes
from runtime.errors import TraceError
from runtime.lab.trace_summary import summarise_trace
from runtime.report.formatting import counted
from runtime.report.study_trace import trace_study
from runtime.terminal import render_study
from runtime.workload import TRACE_FORMATS, Poisson, TraceOptions, Workload, load_trace
from runtime.workload.traces.anonymise import AnonymiseOptions, anonymise
from runtime.workload.traces.keyed import KeyedHash
from runtime.workload.traces.mooncake_writer import mooncake_lines, mooncake_losses
from runtime.workload.traces.native_format import FORMAT_NAME, TraceHeader, TraceRequest
from runtime.workload.traces.native_scan import read_requests
from runtime.workload.traces.native_writer import native_lines, write_lines
from runtime.workload.traces.registry import sniff_format
from runtime.workload.traces.tokenizers import ByteTokenizer, HuggingFaceTokenizer
from runtime.workload.traces.validate import violations_of

_INVALID: Final = 2
_Command = TypeVar("_Command", bound=Callable[..., Any])

_path = click.Path(path_type=Path)
_file = click.Path(path_type=Path, dir_okay=False)
_READING = (
    click.argument("file", type=_path),
    click.option(
        "--format", "trace_format", help=f"Format of FILE, if it cannot be told: {', '.join(TRACE_FORMATS)}."
    ),
    click.option("--tokenizer", type=_path, help="tokenizer.json for traces of texts."),
    click.option(
        "--session-rate",
        type=float,
        default=0.1,
        show_default=True,
        help="Sessions a second, for a trace without a common clock.",
    ),
    click.option("--seed", default=0, show_default=True, help="Seed of everything that is drawn."),
)


def _reading(command: _Command) -> _Command:
    for option in reversed(_READING):
        command = option(command)
    return command


@click.group(name="trace", no_args_is_help=False)
def trace_command() -> None:
    """Look at recorded traffic, check, convert and anonymise it."""


@trace_command.command(short_help="Name everything that is wrong with a trace.")
@_reading
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Violations shown at most."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def validate(limit: int, *, as_json: bool, **options: Any) -> None:
    """Name everything that is wrong with FILE; exit code 2 if anything is."""
    path = options["file"]
    name = options["trace_format"] or sniff_format(path)
    found = violations_of(path, name, limit, _trace_options(options))
    if as_json:
        click.echo(_verdict(path, name, found), nl=False)
    else:
        for violation in found:
            click.echo(f"{violation}")
        full = len(found) >= limit
        number = f"{len(found):,} or more violations" if full else counted(len(found), "violation")
        click.echo(f"{path}: {number if found else 'valid'} ({name})")
    if found:
        sys.exit(_INVALID)


def _verdict(path: Path, name: str, found: list[TraceError]) -> bytes:
    return to_bytes(
        {
            "schema": "radixcache.validation",
            "schema_version": 1,
            "file": path.name,
            "format": name,
            "valid": not found,
            "violations": [{"line": each.line, "reason": each.reason} for each in found],
        }
    )


@trace_command.command(short_help="Write a trace in another format.")
@_reading
@click.argument("out", type=_file)
@click.option(
    "--to",
    "target",
    type=click.Choice([FORMAT_NAME, "mooncake"]),
    default=FORMAT_NAME,
    show_default=True,
    help="Format of OUT.",
)
@click.option(
    "--block-size",
    type=int,
    metavar="TOKENS",
    help="Tokens a block; by default as in FILE, or 16. Mooncake's are always 512.",
)
def convert(out: Path, target: str, block_size: int | None, **options: Any) -> None:
    """Write FILE, of any format, to OUT; packed if its name ends in .gz."""
    _require_place(options["file"], out)
    workload = _workload(options)
    if target == FORMAT_NAME:
        header, requests = native_lines(workload, block_size)
        _report(write_lines(out, _with_header(header, requests)) - 1, out)
        return
    if block_size is not None:
        raise InvalidConfig(f"--block-size {block_size}: blocks of the mooncake format have 512 tokens")
    num_requests = write_lines(out, mooncake_lines(workload))
    for loss in mooncake_losses(workload):
        click.echo(f"note: {loss}", err=True)
    _report(num_requests, out)


@trace_command.command(name="anonymise", short_help="Keep only lengths, times and who shares with whom.")
@_reading
@click.argument("out", type=_file)
@click.option("--salt", metavar="TEXT", help="The secret, 8 bytes or more; other users may see it in `ps`.")
@click.option("--salt-file", type=_path, help="A file with the secret.")
@click.option(
    "--shift/--no-shift", default=True, show_default=True, help="Let the first request arrive at 0."
)
@click.option(
    "--round",
    "round_s",
    type=float,
    default=0.0,
    metavar="SECONDS",
    help="Round times down; by default not.",
)
@click.option("--keep-kinds", is_flag=True, help="Leave the names of kinds of requests.")
def anonymise_command(
    out: Path,
    salt: str | None,
    salt_file: Path | None,
    *,
    shift: bool,
    round_s: float,
    keep_kinds: bool,
    **options: Any,
) -> None:
    """Write FILE to OUT with nothing but lengths, times and who shares with whom."""
    _require_place(options["file"], out)
    key = KeyedHash(_salt(salt, salt_file))
    kept = AnonymiseOptions(shift=shift, round_s=round_s, keep_kinds=keep_kinds)
    header, lines = _native(options)
    first = min((each.arrival for each in lines() if each.arrival is not None), default=0)
    header, requests = anonymise(header, lines(), key, kept, first_arrival=first)
    _report(write_lines(out, _with_header(header, requests)) - 1, out)


@trace_command.command(short_help="Sizes, pace and what a cache could find.")
@_reading
@click.option("--page-size", type=int, metavar="TOKENS", help="Tokens a page; by default a block, or 16.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def describe(page_size: int | None, *, as_json: bool, **options: Any) -> None:
    """Sizes, pace and what a cache could find in FILE."""
    summary = summarise_trace(_workload(options), page_size)
    if as_json:
        click.echo(summary.to_json(), nl=False)
    else:
        console().print(render_study(trace_study(summary)))


def _trace_options(options: dict[str, Any]) -> TraceOptions:
    tokenizer = options["tokenizer"]
    return TraceOptions(
        seed=options["seed"],
        arrivals=Poisson(rate_per_s=options["session_rate"]),
        tokenizer=ByteTokenizer() if tokenizer is None else HuggingFaceTokenizer(tokenizer),
    )


def _workload(options: dict[str, Any]) -> Workload:
    return load_trace(options["file"], options["trace_format"], options=_trace_options(options))


def _native(options: dict[str, Any]) -> tuple[TraceHeader, Callable[[], Iterator[TraceRequest]]]:
    """Header and lines of a file, which may be asked for twice; those of another format are converted."""
    path = options["file"]
    if (options["trace_format"] or sniff_format(path)) != FORMAT_NAME:
        workload = _workload(options)
        return native_lines(workload)[0], lambda: native_lines(workload)[1]
    return read_requests(path)[0], lambda: (each.request for each in read_requests(path)[1])


def _with_header(header: TraceHeader, requests: Iterable[TraceRequest]) -> Iterator[msgspec.Struct]:
    yield header
    yield from requests


def _salt(salt: str | None, salt_file: Path | None) -> bytes:
    if (salt is None) == (salt_file is None):
        raise InvalidConfig("give the secret either as --salt or as --salt-file")
    if salt is not None:
        return salt.encode(errors="surrogateescape")
    assert salt_file is not None
    return salt_file.read_bytes().strip()


def _require_place(path: Path, out: Path) -> None:
    if not out.parent.is_dir():
        raise InvalidArgument(f"no such folder: {str(out.parent)!r}")
    if out.exists() and path.exists() and out.samefile(path):
        raise InvalidArgument(f"OUT is FILE: {out}")


def _report(num_requests: int, out: Path) -> None:
    click.echo(f"wrote {counted(num_requests, 'request')} to {out}")
