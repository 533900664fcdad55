"""Where the prompt tokens went: matched, copied, or missed and why."""

from collections.abc import Sequence
from typing import Any

from runtime.metrics import RunSummary
from runtime.report.figure import Figure, plain, tidy
from runtime.report.formatting import count
from runtime.report.palette import MISS_ROLES

UNKNOWN_REASON = "no reason recorded"


def parts(summary: RunSummary) -> dict[str, int]:
    """Prompt tokens of the admitted requests by what became of them; adds up to all of them."""
    found = {"matched": summary.matched_tokens, "copied": summary.copied_tokens}
    known = sum(found.values()) + sum(summary.miss.values())
    rest = {UNKNOWN_REASON: summary.prompt_tokens - known}
    return {name: tokens for name, tokens in (found | summary.miss | rest).items() if tokens > 0}


def token_figures(summaries: Sequence[RunSummary]) -> list[Figure]:
    """One bar for each run, stacked to 100 %; none if no prompt was admitted."""
    runs = [summary for summary in summaries if summary.prompt_tokens]
    if not runs:
        return []
    totals: dict[str, int] = {}
    for summary in runs:
        for name, tokens in parts(summary).items():
            totals[name] = totals.get(name, 0) + tokens
    misses = sorted(set(totals) - {"matched", "copied"}, key=lambda name: (-totals[name], name))
    names = [name for name in ("matched", "copied") if name in totals] + misses
    layout = {
        "barmode": "stack",
        "bargap": 0.35,
        "xaxis": {
            "title": {"text": "share of prompt tokens"},
            "tickformat": ".0%",
            "range": [0, 1.003],
        },
        "yaxis": {"autorange": "reversed", "automargin": True, "ticksuffix": "  "},
        "hovermode": "closest",
        "legend": {"traceorder": "normal"},
        "margin": {"r": 28},
    }
    return [
        Figure(
            name="prompt-tokens",
            title="Where prompt tokens went",
            caption="Prompt tokens at first admissions: matched ones needed no prefill, the others "
            "are shown by the reason why they were not in the cache.",
            data=[_bar(name, _role(name, misses), runs) for name in names],
            layout=layout,
            height_px=130 + 64 * len(runs),
            wide=True,
        )
    ]


def _role(name: str, misses: Sequence[str]) -> str:
    """The colour of a known miss reason is its own, so that reports can be compared."""
    if name not in misses:
        return name
    fallback = list(MISS_ROLES.values())[misses.index(name) % len(MISS_ROLES)]
    return MISS_ROLES.get(name, fallback)


def _bar(name: str, role: str, runs: Sequence[RunSummary]) -> dict[str, Any]:
    tokens = [parts(run).get(name, 0) for run in runs]
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(name.replace("_", " ")),
        "y": [plain(run.label) for run in runs],
        "x": [tidy(part / run.prompt_tokens) for part, run in zip(tokens, runs, strict=True)],
        "text": [count(part) for part in tokens],
        "textposition": "none",
        "marker": {"color": f"${role}", "line": {"width": 0}},
        "hovertemplate": "%{x:.1%}, %{text} tokens",
    }
