"""Result files: runs of a suite as JSON, with all that a reader needs to judge and repeat them."""

import dataclasses
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.errors import BenchError
from bench.harness.environment import Environment
from bench.harness.report import Report, verdicts
from bench.options import Options
from bench.suites import SUITES

FORMAT = "radixcache-bench-2"


class UnreadableResults(BenchError, ValueError):
    """A file holds no results, or those of another version of this program."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark, run once.

    Attributes:
        environment: Commit, machine, versions.
        options: As given; files by name.
        limits: Each limit of the report with what was measured, by clock.
        report: What was found, raw samples included.
    """

    environment: Environment
    options: Options
    limits: list[dict[str, str | float | bool]]
    report: Report


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a suite.

    Attributes:
        format: `FORMAT`.
        suite: A key of `SUITES`, or "all".
        runs: At most one of each benchmark.
    """

    suite: str
    runs: list[Run]
    format: str = FORMAT

    def merged(self, newer: "Results") -> "Results":
        """These runs with those of `newer` in place of their own, in the order of the suite."""
        runs = {run.report.name: run for run in (*self.runs, *newer.runs)}
        return Results(
            suite=self.suite, runs=[runs[name] for name in SUITES[self.suite].benchmarks if name in runs]
        )


def results_of(suite: str, environment: Environment, options: Options, reports: Iterable[Report]) -> Results:
    """What a suite found, with files by their names only."""
    trace, agents, tools = (
        None if path is None else Path(path).name for path in (options.trace, options.agents, options.tools)
    )
    shown = dataclasses.replace(options, trace=trace, agents=agents, tools=tools)
    runs = [
        Run(environment=environment, options=shown, limits=verdicts(report), report=report)
        for report in reports
    ]
    return Results(suite=suite, runs=runs)


def file_name(theme: str, environment: Environment, month: str) -> str:
    """How a result file is called: `[theme]_[hardware]_[yyyymm].json`."""
    hardware = re.sub(r"[^a-z0-9]+", "-", str(environment["cpu"]).lower()).strip("-")
    return f"{theme}_{hardware}-{environment['cores']}core_{month}.json"


def this_month() -> str:
    """Now, as `file_name` wants it."""
    return datetime.now(UTC).strftime("%Y%m")


def load(path: Path) -> Results:
    """Read a result file.

    Raises:
        UnreadableResults: It is something else.
    """
    try:
        results = msgspec.json.decode(path.read_bytes(), type=Results)
    except msgspec.DecodeError as error:
        raise UnreadableResults(f"{path.name}: {error}") from error
    if results.format != FORMAT or results.suite not in SUITES:
        raise UnreadableResults(f"{path.name}: format {results.format!r}, suite {results.suite!r}")
    return results


def save(results: Results, path: Path) -> None:
    """Write a result file; runs of other benchmarks that it holds are kept.

    Raises:
        UnreadableResults: There is a file of that name that holds something else.
    """
    if path.exists():
        results = load(path).merged(results)
    path.write_bytes(msgspec.json.encode(results) + b"\n")
