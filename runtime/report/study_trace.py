"""What `radixcache trace describe` found, as text: facts and tables."""

from collections.abc import Callable

from runtime.lab.trace_summary import Spread, TraceSummary
from runtime.report.formatting import count, counted, duration, share
from runtime.report.study import Fact, Sheet, Study

_COLUMNS = ["", "total", "mean", "median", "p90", "p99", "largest"]


def trace_study(summary: TraceSummary) -> Study:
    """A summary as a study, without figures."""
    return Study(
        command="trace describe",
        title=f"Trace {summary.name}",
        lead=f"{counted(summary.num_requests, 'request')} of {counted(summary.num_sessions, 'session')}.",
        facts=_facts(summary),
        figures=[],
        sheets=[sheet for sheet in (_sizes(summary), _times(summary), _kinds(summary)) if sheet.rows],
        warnings=[],
        notes=summary.notes,
    )


def _facts(summary: TraceSummary) -> list[Fact]:
    rate = "none" if summary.requests_per_s is None else f"{summary.requests_per_s:,.3g} a second"
    block = "no blocks" if summary.block_size is None else f"blocks of {summary.block_size} tokens"
    facts = [
        Fact(name="Requests", value=f"{summary.num_requests:,}", remark=block),
        Fact(name="Sessions", value=f"{summary.num_sessions:,}"),
        Fact(name="Tenants", value=f"{summary.num_tenants:,}"),
        Fact(name="Namespaces", value=f"{summary.num_namespaces:,}"),
        Fact(name="Wait for another's answer", value=f"{summary.num_waiting:,}"),
        Fact(name="Contain generated output", value=f"{summary.num_contain_output:,}"),
        Fact(name="Arrivals", value=rate, remark=f"over {summary.duration_s:,.1f} s"),
        Fact(
            name="Ideal hit rate",
            value=share(summary.ideal_hit_rate),
            remark=f"a cache without limit, pages of {summary.page_size} tokens",
        ),
        Fact(
            name="Different tokens",
            value=f"{summary.distinct_tokens:,}",
            remark="what such a cache holds at the end",
        ),
    ]
    return facts + [
        Fact(
            name=f"{each.share * 100:g} % of the ideal",
            value=f"{each.capacity_tokens:,} tokens",
            remark="of LRU cache",
        )
        for each in summary.capacity
    ]


def _sizes(summary: TraceSummary) -> Sheet:
    rows = {
        "prompt tokens": summary.prompt_tokens,
        "output tokens": summary.output_tokens,
        "session turns": summary.turns,
    }
    return Sheet(
        title="Sizes",
        columns=_COLUMNS,
        rows=[
            [name, f"{spread.total:,.0f}", f"{spread.mean:,.1f}", *_others(spread, count)]
            for name, spread in rows.items()
        ],
    )


def _times(summary: TraceSummary) -> Sheet:
    rows = {"pause before a turn": summary.think_s, "page used again after": summary.reuse_after_s}
    return Sheet(
        title="Times",
        columns=_COLUMNS[:1] + _COLUMNS[2:],
        rows=[
            [name, duration(spread.mean), *_others(spread, duration)]
            for name, spread in rows.items()
            if spread is not None
        ],
        remark="as if answers took no time; pages that a cache without limit finds",
    )


def _others(spread: Spread, show: Callable[[float], str]) -> list[str]:
    return [show(value) for value in (spread.p50, spread.p90, spread.p99, spread.largest)]


def _kinds(summary: TraceSummary) -> Sheet:
    total = summary.num_requests
    return Sheet(
        title="Kinds of requests",
        columns=["", "requests", "share"],
        rows=[[kind, f"{number:,}", share(number / total)] for kind, number in summary.kinds.items()],
    )
