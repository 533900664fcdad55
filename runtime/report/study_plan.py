"""A capacity plan in words, tables and plots."""

from collections.abc import Callable
from typing import Any, Final

from runtime.lab.planner import Plan, PoolPlan
from runtime.lab.probe import Probe
from runtime.report.figure import Figure, tidy
from runtime.report.formatting import MISSING, change, duration, rate, share
from runtime.report.study import Fact, Sheet, Study
from runtime.report.subject import subject

_NOTES: Final = (
    (
        "Every probe is a whole simulation, and all its requests count for the percentiles; one that did not "
        "finish keeps no limit. The answer is exact to one step of the tolerance if the limits hold at every "
        "rate below one at which they hold."
    ),
    (
        "Sessions / s: how often sessions start; requests / s: what these bring in the long run. Goodput: "
        "requests that arrived in the second half of the time in which sessions start and kept both limits, "
        "by the length of that time."
    ),
    "Pools: GiB of keys and values of all layers, over all GPUs of the model.",
)
_COLORS: Final = ("$cache", "$baseline", "$other-1", "$other-2", "$miss-5", "$miss-6")


def plan_study(plan: Plan) -> Study:
    """The study that `radixcache plan` shows."""
    limits = plan.limits
    return Study(
        command="plan",
        title=subject(plan.config),
        lead=f"The largest rate at which p{limits.percentile} TTFT stays within {duration(limits.ttft_s)} "
        f"and p{limits.percentile} TPOT within {duration(limits.tpot_s)}, found by bisection to "
        f"{share(plan.tolerance)} with {_num_probes(plan)} simulations. Every time and rate is simulated.",
        facts=_facts(plan),
        figures=[
            _latency_figure(plan, "TTFT", limits.ttft_s, lambda probe: probe.ttft_s),
            _latency_figure(plan, "TPOT", limits.tpot_s, lambda probe: probe.tpot_s),
            _goodput_figure(plan),
        ],
        sheets=[_pools(plan), _probes(plan)],
        warnings=_warnings(plan),
        notes=[*plan.notes, *_NOTES],
        config={**plan.config, "seed": plan.seed, "versions": dict(plan.versions)},
    )


def _num_probes(plan: Plan) -> int:
    return sum(len(pool.probes) for pool in plan.pools)


def _rate(plan: Plan, best: Probe) -> str:
    return f"{_amount(plan, best)} {_unit(plan)}"


def _amount(plan: Plan, probe: Probe) -> str:
    return f"{probe.rate:,.0f}" if plan.by == "users" else rate(_x(plan, probe))


def _unit(plan: Plan) -> str:
    """What `_x` counts."""
    first = plan.pools[0].probes[0]
    return "users" if plan.by == "users" else "sessions / s" if first.sessions_per_s else "times as dense"


def _facts(plan: Plan) -> list[Fact]:
    first = plan.pools[0]
    best = first.best
    if best is None:
        return [Fact(name="Largest rate", value=MISSING, remark="the limits hold at no rate that was tried")]
    facts = [
        Fact(
            name="Users, most" if plan.by == "users" else "Largest rate of sessions",
            value=_rate(plan, best).removesuffix(" users").replace(" sessions", ""),
            remark=_offered(plan, best),
        ),
        Fact(
            name="Goodput",
            value=f"{_show(best.goodput_per_s, rate)} / s",
            remark=f"requests within the limits, of {_show(best.arrived_per_s, rate)} / s that arrived",
        ),
        Fact(
            name="Hit rate",
            value=_show(best.hit_rate, share),
            remark=f"{_show(best.of_optimum, share)} of the optimum, {_show(best.of_ceiling, share)} of the "
            "ceiling",
        ),
    ]
    larger = [pool for pool in plan.pools if pool.more_gib > 0]
    gains = [(pool.best.rate / best.rate, pool) for pool in larger if pool.best]
    if gains:
        gain, pool = max(gains, key=lambda pair: pair[0])
        text = "" if pool.best is None else f"{pool.more_gib:+g} GiB: {_rate(plan, pool.best)}"
        value = change(gain) if gain > 1 else "no more"
        facts.append(Fact(name="What more cache buys, at best", value=value, remark=text))
    return facts


def _offered(plan: Plan, best: Probe) -> str:
    if plan.by == "users":
        return f"{_show(best.arrived_per_s, rate)} requests / s"
    return f"{_show(best.requests_per_s, rate)} requests / s, {rate(best.rate)} times the workload's own rate"


def _warnings(plan: Plan) -> list[str]:
    warnings = []
    first = plan.pools[0]
    if first.unbounded and first.best is not None:
        warnings.append(
            f"The limits hold even at the highest rate tried ({_rate(plan, first.best)}): the workload is "
            "too short to fill this device."
        )
    hasty = [pool.best for pool in plan.pools if pool.best is not None and not pool.best.steady]
    if hasty:
        warnings.append(
            f"At the largest rate of {len(hasty)} of {len(plan.pools)} pools the workload is over before as "
            "many requests arrive as that rate brings in the long run: the true limit is lower. Give more "
            "sessions, for instance with --set num_sessions=N."
        )
    return warnings


def _pools(plan: Plan) -> Sheet:
    first = plan.pools[0].best
    return Sheet(
        title="What another GiB of cache buys",
        columns=[
            "pool",
            "GiB",
            f"{_unit(plan)}, most",
            "gain",
            "goodput / s",
            "hit rate",
            "at equal rate",
        ],
        rows=[_pool_row(plan, pool, first) for pool in plan.pools],
        remark="Each pool at its own largest rate; the last column is the hit rate at that of the first.",
    )


def _pool_row(plan: Plan, pool: PoolPlan, first: Probe | None) -> list[str]:
    name = f"{pool.more_gib:+g} GiB" if pool.more_gib else "as given"
    best, same = pool.best, pool.same_rate
    size = [name, f"{pool.gib:,.2f}"]
    if best is None:
        return [*size, *[MISSING] * 4, _show(same.hit_rate if same else None, share)]
    return [
        *size,
        ("\N{GREATER-THAN OR EQUAL TO} " if pool.unbounded else "") + _amount(plan, best),
        change(best.rate / first.rate) if first is not None and pool.more_gib else MISSING,
        _show(best.goodput_per_s, rate),
        _show(best.hit_rate, share),
        _show(same.hit_rate if same else None, share),
    ]


def _probes(plan: Plan) -> Sheet:
    percent = plan.limits.percentile
    rows = [(pool, probe) for pool in plan.pools for probe in pool.probes]
    rows.sort(key=lambda row: row[1].number)
    return Sheet(
        title="Every probe",
        columns=[
            "#",
            "more GiB",
            "users" if plan.by == "users" else "rate",
            f"TTFT p{percent}",
            f"TPOT p{percent}",
            "goodput / s",
            "hit rate",
            "hit / optimum",
            "limits hold",
        ],
        rows=[
            [
                str(probe.number),
                f"{pool.more_gib:+g}" if pool.more_gib else "0",
                f"{probe.rate:.0f}" if plan.by == "users" else f"{probe.rate:.4g}",
                _show(probe.ttft_s, duration),
                _show(probe.tpot_s, duration),
                _show(probe.goodput_per_s, rate),
                _show(probe.hit_rate, share),
                _show(probe.of_optimum, share),
                _verdict(probe),
            ]
            for pool, probe in rows
        ],
        remark="Rate: how many times as densely sessions start as in the workload."
        if plan.by == "rate"
        else "",
    )


def _verdict(probe: Probe) -> str:
    if probe.holds:
        return "yes"
    return f"no, {probe.num_unserved:,} not finished" if probe.num_unserved else "no"


def _latency_figure(plan: Plan, name: str, limit_s: float, of: Callable[[Probe], float | None]) -> Figure:
    data = []
    for number, pool in enumerate(plan.pools):
        known = [(_x(plan, probe), max(value, 1e-6)) for probe in _by_rate(pool) if (value := of(probe))]
        data.append(_line(number, pool, [x for x, _ in known], [y for _, y in known]))
    data.append(_limit(plan, limit_s, "limit"))
    return Figure(
        name=f"plan-{name.lower()}",
        title=f"{name} p{plan.limits.percentile} by rate",
        caption="Every probe, by pool; both axes logarithmic. The largest rate lies before the first limit "
        "that is crossed.",
        data=data,
        layout=_layout(plan, {"type": "log", "title": {"text": "simulated seconds"}}),
        height_px=360,
    )


def _goodput_figure(plan: Plan) -> Figure:
    data = [
        _line(number, pool, [_x(plan, p) for p in _by_rate(pool)], [_good(p) for p in _by_rate(pool)])
        for number, pool in enumerate(plan.pools)
    ]
    return Figure(
        name="plan-goodput",
        title="Goodput by rate",
        caption="Requests within both limits per simulated second, by pool. It falls where the limits break.",
        data=data,
        layout=_layout(plan, {"title": {"text": "requests / s"}, "rangemode": "tozero"}),
        height_px=320,
        wide=True,
    )


def _layout(plan: Plan, y: dict[str, Any]) -> dict[str, Any]:
    return {"xaxis": {"type": "log", "title": {"text": _unit(plan)}}, "yaxis": y, "hovermode": "closest"}


def _line(number: int, pool: PoolPlan, x: list[float], y: list[float]) -> dict[str, Any]:
    name = f"{pool.more_gib:+g} GiB" if pool.more_gib else f"{pool.gib:,.1f} GiB"
    color = _COLORS[number % len(_COLORS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [tidy(value) for value in x],
        "y": [tidy(value) for value in y],
        "line": {"color": color, "width": 2},
        "marker": {"size": 6},
        "hovertemplate": f"{name}: %{{y:.3g}} at %{{x:.3g}}<extra></extra>",
    }


def _limit(plan: Plan, value: float, name: str) -> dict[str, Any]:
    rates = [_x(plan, probe) for pool in plan.pools for probe in pool.probes]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [tidy(min(rates)), tidy(max(rates))],
        "y": [value, value],
        "line": {"color": "$quiet", "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _by_rate(pool: PoolPlan) -> list[Probe]:
    return sorted(pool.probes, key=lambda probe: probe.rate)


def _x(plan: Plan, probe: Probe) -> float:
    return probe.rate if plan.by == "users" else probe.sessions_per_s or probe.rate


def _good(probe: Probe) -> float:
    return probe.goodput_per_s or 0.0


def _show(value: float | None, how: Any) -> str:
    return MISSING if value is None else str(how(value))
