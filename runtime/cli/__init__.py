"""The command line: the only place that reads arguments. One file for each command."""

import sys

import click

from radixcache import RadixCacheError
from runtime.cli.chat import chat_command
from runtime.cli.compare import compare_command
from runtime.cli.curve import curve_command
from runtime.cli.generate import generate_command
from runtime.cli.plan import plan_command
from runtime.cli.simulate import simulate_command
from runtime.cli.trace import trace_command

_BAD_INPUT = 2

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="radixcache")
def cli() -> None:
    """A prefix KV-cache manager for LLM serving."""


cli.add_command(simulate_command)
cli.add_command(curve_command)
cli.add_command(plan_command)
cli.add_command(compare_command)
cli.add_command(trace_command)
cli.add_command(generate_command)
cli.add_command(chat_command)


def main() -> None:
    """Run the command line; bad input ends it with one line and exit code 2."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit("radixcache: interrupted")
    except click.UsageError as error:
        hint = "" if error.ctx is None else f" See {error.ctx.command_path} --help."
        _fail(error.format_message() + hint)
    except click.ClickException as error:
        _fail(error.format_message())
    except RadixCacheError as error:
        _fail(str(error))
    except OSError as error:
        known = error.filename is not None and error.strerror is not None
        _fail(f"{error.filename}: {str(error.strerror).lower()}" if known else str(error))
    except MemoryError as error:
        _fail(f"out of memory: {error}")


def _fail(message: str) -> None:
    click.echo(f"radixcache: {' '.join(message.split())}", err=True)
    sys.exit(_BAD_INPUT)
