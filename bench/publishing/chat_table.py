"""README's first table: what `make simulate` says, out of the report of `simulate_chat`."""

from bench.benchmarks.simulate_chat import (
    HIT_RATE,
    OF_CEILING,
    PREFILL,
    TPOT_P50,
    TTFT_P50,
    TTFT_P99,
)
from bench.harness.markdown import row
from bench.harness.report import Figure, Report
from runtime.report.formatting import count, duration, share, times

_WORD = "simulated "
"""Stands once, above the names, instead of in each."""


def chat_table(report: Report) -> str:
    """The table as Markdown, without a line's end behind it.

    Args:
        report: A report of `simulate_chat`.

    Raises:
        KeyError: It lacks one of the figures.
    """
    by_name = {figure.name: figure for figure in report.figures}
    hits, of_ceiling = by_name[HIT_RATE], _value(by_name[OF_CEILING])
    prefill = by_name[PREFILL]
    lines = [
        row((_WORD.strip(), "no cache", "radix cache", "")),
        row(("---", "--:", "--:", "--:")),
        row(
            (
                f"hit rate ({share(of_ceiling)} of what an unlimited cache would hit)",
                share(_beside(hits)),
                share(_value(hits)),
                "",
            )
        ),
        row((PREFILL, count(_beside(prefill)), count(_value(prefill)), _ratio(prefill))),
    ]
    for name in (TTFT_P50, TTFT_P99, TPOT_P50):
        figure = by_name[name]
        cells = (duration(value / 1e3) for value in (_beside(figure), _value(figure)))
        lines.append(row((name.removeprefix(_WORD), *cells, _ratio(figure))))
    return "\n".join(lines)


def _value(figure: Figure) -> float:
    return figure.statistic("median", "value")


def _beside(figure: Figure) -> float:
    assert figure.bound is not None
    return figure.bound.median("value")


def _ratio(figure: Figure) -> str:
    return times(_value(figure) / _beside(figure))
