"""A capacity curve in words, tables and one plot."""

from typing import Final

from runtime.lab.capacities import Capacity, CapacityStudy
from runtime.report.figure import Figure, tidy
from runtime.report.formatting import MISSING, count, share, short
from runtime.report.study import Fact, Sheet, Study
from runtime.report.subject import subject

_NOTES: Final = (
    "Requests that run at once need room for the KV of each, which comes on top.",
    (
        "LRU: page-exact least recently used, at every capacity from one pass over stack distances. Optimum: "
        "clairvoyant eviction for this order. Ceiling: nothing is ever evicted."
    ),
    "GiB: keys and values of all layers in the format given, over all GPUs of the model.",
)


def curve_study(found: CapacityStudy) -> Study:
    """The study that `radixcache curve` shows."""
    pool, model = found.pool, _model(found)
    facts = [
        Fact(
            name="Ceiling",
            value=share(found.ceiling_hit_rate),
            remark=f"what a cache without limit finds, {short(found.distinct_tokens)} tokens in the end",
        )
    ]
    facts += [
        Fact(
            name=f"{target.share * 100:g} % of the ceiling",
            value=f"{short(target.reached.capacity_tokens)} tokens",
            remark=f"{_gib(target.reached)} of {model}, hit rate {_share(target.reached.lru_hit_rate)}",
        )
        for target in found.targets
    ]
    facts.append(
        Fact(
            name="The modelled pool",
            value=f"{short(pool.capacity_tokens)} tokens",
            remark=f"{_gib(pool)}: {_where(pool)}",
        )
    )
    return Study(
        command="curve",
        title=subject(found.config),
        lead=f"Hit rate of {found.num_requests:,} requests with {found.prompt_tokens:,} prompt tokens at "
        "every capacity, served one after the other: no queue, exactly what the cache finds.",
        facts=facts,
        figures=[_figure(found)],
        sheets=[_sheet(found)],
        warnings=_warnings(found),
        notes=[*found.notes, *_NOTES],
        config={**found.config, "seed": found.seed, "versions": dict(found.versions)},
    )


def _model(found: CapacityStudy) -> str:
    cost = found.config.get("cost_model")
    name = cost.get("model") if isinstance(cost, dict) else None
    return str(name) if name else "the model"


def _warnings(found: CapacityStudy) -> list[str]:
    if found.pool.lru_hit_rate is not None:
        return []
    pool, needed = found.pool.capacity_tokens, found.curve_tokens[0]
    return [
        f"The modelled pool of {pool:,} tokens is less than the longest request needs: {needed:,} tokens."
    ]


def _where(pool: Capacity) -> str:
    if pool.lru_hit_rate is None:
        return "too small for the longest request"
    if pool.of_ceiling is None:
        return f"hit rate {share(pool.lru_hit_rate)}"
    return f"hit rate {share(pool.lru_hit_rate)}, {share(pool.of_ceiling)} of the ceiling"


def _sheet(found: CapacityStudy) -> Sheet:
    rows = [("", each) for each in found.optima]
    rows += [(f"{target.share * 100:g} %", target.reached) for target in found.targets]
    rows.append(("pool", found.pool))
    rows.sort(key=lambda row: row[1].capacity_tokens)
    return Sheet(
        title="Hit rate by capacity",
        columns=["capacity (tokens)", "GiB", "LRU", "optimum", "LRU / optimum", "LRU / ceiling", ""],
        rows=[
            [
                count(each.capacity_tokens),
                f"{each.gib:,.2f}",
                _share(each.lru_hit_rate),
                _share(each.optimum_hit_rate),
                _share(_ratio(each.lru_hit_rate, each.optimum_hit_rate)),
                _share(each.of_ceiling),
                name,
            ]
            for name, each in rows
        ],
        remark="Pool: the modelled one. A percentage: the least capacity that finds so much of the ceiling.",
    )


def _figure(found: CapacityStudy) -> Figure:
    optima = [each for each in [*found.optima, *(t.reached for t in found.targets)] if each.optimum_hit_rate]
    optima.sort(key=lambda each: each.capacity_tokens)
    ends = [found.curve_tokens[0], max(found.curve_tokens[-1], found.pool.capacity_tokens)]
    pool = [float(found.pool.capacity_tokens)] * 2
    data = [
        _line(
            "ceiling", ends, [found.ceiling_hit_rate] * 2, {"color": "$quiet", "width": 1.5, "dash": "dot"}
        ),
        _line(
            "optimum",
            [each.capacity_tokens for each in optima],
            [each.optimum_hit_rate or 0.0 for each in optima],
            {"color": "$other-2", "width": 2},
            "lines+markers",
        ),
        _line("LRU", found.curve_tokens, found.curve_hit_rate, {"color": "$cache", "width": 2.5}),
        _line("modelled pool", pool, [0.0, 1.0], {"color": "$baseline", "width": 1.5, "dash": "dash"})
        | {"hoverinfo": "skip", "hovertemplate": None},
    ]
    top = max(found.ceiling_hit_rate * 1.08, 0.01)
    return Figure(
        name="curve",
        title="Hit rate by capacity",
        caption="Share of prompt tokens found in the cache, by tokens of KV that it holds; logarithmic axis. "
        "Between LRU and the optimum lies what a better eviction could gain, up to the ceiling what only a "
        "larger cache can.",
        data=data,
        layout={
            "xaxis": {"type": "log", "title": {"text": "capacity (tokens)"}, "tickformat": "~s"},
            "yaxis": {"title": {"text": "hit rate"}, "tickformat": ".0%", "range": [0, tidy(top)]},
            "hovermode": "closest",
        },
        height_px=460,
        wide=True,
    )


def _line(
    name: str,
    x: list[int] | list[float],
    y: list[float],
    line: dict[str, object],
    mode: str = "lines",
) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": list(x),
        "y": [tidy(value) for value in y],
        "line": line,
        "marker": {"size": 6},
        "hovertemplate": f"{name}: %{{y:.1%}} at %{{x:,}} tokens<extra></extra>",
    }


def _gib(capacity: Capacity) -> str:
    return f"{capacity.gib:,.2f} GiB"


def _share(value: float | None) -> str:
    return MISSING if value is None else share(value)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
