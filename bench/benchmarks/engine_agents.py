"""Prefill of recorded agent calls behind cached prefixes: is it as fast as cold calls say it should be?"""

from typing import TYPE_CHECKING

from bench.harness.report import Figure, Limit, Report
from bench.harness.timing import frozen_heap
from bench.options import Options

if TYPE_CHECKING:
    from bench.scenarios.agent_calls import AgentCalls

LIMIT = Limit(statistic="median", low=0.85, plus=1.15)
CLOCKS = ("cpu", "wall")


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with these, and no benchmark of the core should have it in its process
    import torch

    from bench.scenarios.agent_calls import AgentCalls, agent_prompts, measured_over_fitted
    from bench.scenarios.agent_calls import fitted as fit
    from bench.scenarios.served_model import served_model

    model = served_model(options)
    calls = agent_prompts(model, options)
    num_cold, repetitions = options.pick(tiny=6, full=15), options.pick(tiny=1, full=5)
    total: dict[str, list[float]] = {clock: [] for clock in CLOCKS}
    single: dict[str, list[float]] = {clock: [] for clock in CLOCKS}
    notes: list[str] = []
    for repetition in range(repetitions):
        made = AgentCalls(model, calls.prompts, num_cold=num_cold, seed=options.seed + repetition)
        with frozen_heap():
            made.run()
        for clock in CLOCKS:
            coefficients = fit(made.cold, clock)
            together, each = measured_over_fitted(made.warm, coefficients, clock)
            total[clock].append(together)
            single[clock] += each
        notes.append(_describe(repetition, made, [float(value) for value in coefficients], calls.prompts))
    return Report(
        name="engine_agents",
        question="does a call behind a cached prefix take the time that its own tokens and pairs should?",
        config={
            "model": model.name,
            "torch threads": torch.get_num_threads(),
            "runs": calls.num_runs,
            "calls": len(calls.prompts),
            "refused calls": calls.num_refused,
            "prompt tokens": [len(prompt) for prompt in calls.prompts],
            "cold calls a repetition": num_cold,
            "repetitions": repetitions,
        },
        figures=(
            Figure(
                name="prefill of all warm calls, measured / fitted",
                unit="ratio",
                samples=total,
                limits=(LIMIT,),
            ),
            Figure(name="prefill of a warm call, measured / fitted", unit="ratio", samples=single),
        ),
        notes=(
            *notes,
            (
                "Fitted: a + b x tokens + c x query-key pairs, least squares of relative errors over cold "
                "calls of such a prompt, cut to lengths from 32 tokens to all, spread among the warm ones."
            ),
            (
                f"{calls.num_refused} calls whose prompts leave the model's context no room were refused. "
                "Recorded outputs were fed: a call computes its prompt and one token. Every call found just "
                "the pages that an earlier one had in common with it."
            ),
        ),
    )


def _describe(
    repetition: int, made: "AgentCalls", coefficients: list[float], prompts: list[list[int]]
) -> str:
    """Tokens and times of a repetition, by the wall clock."""
    fixed, token, pair = coefficients
    cold_us = sum(
        fixed + token * len(prompt) + pair * (len(prompt) * (len(prompt) + 1) // 2) for prompt in prompts
    )
    served = made.first + made.warm
    warm_us = sum(call.times_us["wall"] for call in served)
    computed, known = (
        sum(getattr(call, name) for call in served) for name in ("computed_tokens", "cached_tokens")
    )
    return (
        f"Repetition {repetition + 1}, wall clock: a {fixed:,.0f} us, b {token:.1f} us a token, c "
        f"{pair * 1e3:.2f} ns a pair. {computed:,} of {computed + known:,} prompt tokens were computed, "
        f"{1 - computed / (computed + known):.1%} less, in {warm_us / 1e6:.2f} s; cold calls would have "
        f"taken {cold_us / 1e6:.2f} s by that fit, the time is {1 - warm_us / cold_us:.1%} less."
    )
