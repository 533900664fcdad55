"""The page of a result file: question, set-up, how to rerun, limits, tables, and what they do not show."""

from collections.abc import Callable, Sequence

from bench.harness.markdown import row, section
from bench.harness.report import Figure, Limit, Picture
from bench.harness.table import number
from bench.options import Options
from bench.publishing.documents import Results, Run
from bench.suites import SUITES

PictureName = Callable[[Picture], str]
"""Where a picture lies, as seen from the page."""


def page(results: Results, picture_name: PictureName, remarks: str = "") -> str:
    """The page as Markdown.

    Args:
        results: What a file holds.
        picture_name: Where each picture lies.
        remarks: What a person had to say of these results, as Markdown.
    """
    suite = SUITES[results.suite]
    lines = [
        f"# {results.suite}: {suite.title}",
        "",
        f"**Question.** {suite.question}",
        "",
        *_set_up(results.suite, results.runs),
        *(["## Remarks", "", remarks.strip(), ""] if remarks else []),
        *_limits(results.runs),
        "## What this does not show",
        "",
        *(f"* {caveat}" for caveat in suite.caveats),
        "",
    ]
    for run in results.runs:
        name = run.report.name
        above = ["Times are simulated.", ""] if name in suite.simulated else []
        pictures = [f"![{picture.title}]({picture_name(picture)})" for picture in run.report.pictures]
        above += [*pictures, ""] if pictures else []
        lines += section(run.report, above)
    return "\n".join(lines).rstrip() + "\n"


def _set_up(suite: str, runs: Sequence[Run]) -> list[str]:
    """Where and how each was run, those that were run alike together."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(repr((run.environment, run.options)), []).append(run)
    lines = ["**Set-up.**", ""]
    for alike in groups.values():
        environment, options = alike[0].environment, alike[0].options
        names = [run.report.name for run in alike]
        packages = environment["versions"]
        assert isinstance(packages, dict)
        facts = (
            f"commit {environment['commit']}{', with uncommitted changes' if environment['dirty'] else ''}",
            f"{environment['cpu']}, {environment['cores']} cores, {environment['system']}",
            f"{environment['python']}",
            ", ".join(f"{name} {version}" for name, version in packages.items()),
            f"size {options.size}, seed {options.seed}, page size {options.page_size}",
        )
        lines += [
            f"* {', '.join(names)}: {'; '.join(facts)}.",
            f"  Rerun: `{_command(suite, names, options)}`",
        ]
    return [*lines, ""]


def _command(suite: str, names: Sequence[str], options: Options) -> str:
    given = {"trace": options.trace, "agents": options.agents, "tools": options.tools}
    words = [f"python -m bench {suite}"]
    if set(names) != set(SUITES[suite].benchmarks):
        words += [f"--only {name}" for name in names]
    words += [f"--{name} {value}" for name, value in given.items() if value is not None]
    words += [f"--size {options.size}"] if options.size != "full" else []
    words += [f"--seed {options.seed}"] if options.seed else []
    return " ".join([*words, "--into bench/results"])


def _limits(runs: Sequence[Run]) -> list[str]:
    rows = [
        [run.report.name, figure.name, f"{limit.text()} {figure.unit}", *_verdict(figure, limit)]
        for run in runs
        for figure in run.report.figures
        for limit in figure.limits
    ]
    if not rows:
        return []
    held = sum(cells[-1] == "yes" for cells in rows)
    header = ["benchmark", "figure", "limit", "measured", "holds"]
    return [
        "## Limits",
        "",
        f"{held} of {len(rows)} hold by every clock they were measured with.",
        "",
        row(header),
        row(["---", "---", "---", "--:", "---"]),
        *map(row, rows),
        "",
    ]


def _verdict(figure: Figure, limit: Limit) -> tuple[str, str]:
    values = " / ".join(
        number(figure.statistic(limit.statistic, clock)) + ("" if clock == "value" else f" {clock}")
        for clock in figure.samples
    )
    holding = [clock for clock in figure.samples if figure.holds(limit, clock)]
    if len(holding) == len(figure.samples):
        return values, "yes"
    return values, f"**no**{f', but by {holding[0]} time' if holding else ''}"
