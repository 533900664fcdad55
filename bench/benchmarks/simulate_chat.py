"""The very numbers of `make simulate`: the command of the Makefile, and what its result says."""

import io
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.errors import WrongResult, expect
from bench.harness.environment import ROOT
from bench.harness.report import Bound, Figure, Report
from bench.options import Options
from bench.scenarios.load_point import require_no_hits, require_same_work, require_served
from runtime.cli.simulate import simulate_command
from runtime.metrics import RunSummary, Spread, summarise
from runtime.result import BASELINE_LABEL, CACHE_LABEL, SimulationResult, from_json

COMMAND = "$(BIN)/radixcache simulate "
TINY = ("--set", "num_sessions=10")
"""Behind the settings of the Makefile; what is said last counts."""

HIT_RATE = "simulated hit rate"
OF_CEILING = "share of what an unlimited cache would hit"
PREFILL = "prefill tokens computed"
TTFT_P50 = "simulated time to first token, p50"
TTFT_P99 = "simulated time to first token, p99"
TPOT_P50 = "simulated time per output token, p50"


def run(options: Options) -> Report:
    """See the module."""
    arguments = [*makefile_arguments(), "--seed", str(options.seed)]
    if options.size == "tiny":
        arguments += TINY
    document = simulate(arguments)
    expect("a second run gives the same bytes", simulate(arguments) == document, wanted=True)
    result = from_json(document)
    summaries = verified(result)
    workload, cost = result.config["workload"], result.config["cost_model"]
    assert isinstance(workload, dict)
    assert isinstance(cost, dict)
    return Report(
        name="simulate_chat",
        question="what does `make simulate` say?",
        config={
            "arguments": " ".join(arguments),
            "sessions": int(str(workload["sessions"])),
            "requests": int(str(workload["requests"])),
            "warnings": len(result.warnings),
        },
        figures=figures(summaries[BASELINE_LABEL], summaries[CACHE_LABEL]),
        notes=(
            (
                "Simulated, by the command itself with the arguments that stand in the Makefile. One seed: a "
                "sample a figure. It was run twice and gave the same bytes."
            ),
            (
                "Unlike in serve_simulated all requests count, also those of the slow beginning and end: "
                "conversations start for some two minutes only."
            ),
            *result.notes,
        ),
    )


def makefile_arguments() -> list[str]:
    """What `make simulate` gives to `radixcache simulate`, but for the folder of the report.

    Raises:
        WrongResult: The Makefile has no such line, or more than one.
    """
    lines = [line.strip() for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()]
    found = [line.removeprefix(COMMAND) for line in lines if line.startswith(COMMAND)]
    if len(found) != 1:
        raise WrongResult(f"the Makefile has {len(found)} lines that start with {COMMAND!r}, not 1")
    arguments = shlex.split(found[0])
    place = arguments.index("--out")
    return arguments[:place] + arguments[place + 2 :]


def simulate(arguments: list[str]) -> bytes:
    """The `result.json` of a run of the command."""
    with TemporaryDirectory() as folder:
        with redirect_stdout(io.StringIO()):
            simulate_command.main([*arguments, "--out", folder], standalone_mode=False)
        return (Path(folder) / "result.json").read_bytes()


def verified(result: SimulationResult) -> dict[str, RunSummary]:
    """The metrics of both runs.

    Raises:
        WrongResult: Not all was served, the runs did other work, or there were hits without a cache.
    """
    runs = {each.label: each for each in result.runs}
    expect("runs", sorted(runs), sorted((BASELINE_LABEL, CACHE_LABEL)))
    workload = result.config["workload"]
    assert isinstance(workload, dict)
    for label, each in runs.items():
        require_served(label, each, int(str(workload["requests"])))
    require_same_work("make simulate", runs)
    require_no_hits("make simulate", runs[BASELINE_LABEL])
    return {label: summarise(each) for label, each in runs.items()}


def figures(without: RunSummary, cached: RunSummary) -> tuple[Figure, ...]:
    """The rows of the README's table, each with the cache, beside the same without."""

    def figure(name: str, unit: str, value: float | None, beside: float | None) -> Figure:
        assert value is not None
        bound = None if beside is None else Bound(name=BASELINE_LABEL, samples={"value": [beside]})
        return Figure(name=name, unit=unit, samples={"value": [value]}, bound=bound)

    def at(spread: Spread | None, percent: str) -> float:
        assert spread is not None
        return round(float(getattr(spread, percent)) * 1e3, 6)

    return (
        figure(HIT_RATE, "share", cached.hit_rate, without.hit_rate),
        figure(OF_CEILING, "share", cached.of_ceiling, None),
        figure("share of the optimum at this capacity", "share", cached.of_optimum, None),
        figure(PREFILL, "tokens", cached.computed_prompt_tokens, without.computed_prompt_tokens),
        figure(TTFT_P50, "ms", at(cached.ttft_s, "p50"), at(without.ttft_s, "p50")),
        figure(TTFT_P99, "ms", at(cached.ttft_s, "p99"), at(without.ttft_s, "p99")),
        figure(TPOT_P50, "ms", at(cached.tpot_s, "p50"), at(without.tpot_s, "p50")),
    )
