"""Locking a prefix that a thousand live sequences share, at several depths."""

from collections.abc import Callable

from bench.harness.promises import flat, linear, median_point
from bench.harness.report import Bound, Figure, Limit, Picture, Report
from bench.harness.timing import Call, Samples, alternate
from bench.options import Options
from bench.scenarios.hot_prefix import HotPrefix

FLAT = Limit(statistic="median", factor=1.5, source="ours, for 'independent of depth'")
LOCK, OPEN, PEEK, IDLE = "lock + unlock", "open + abort", "peek", "lock + unlock where nobody holds it"
CALLS: dict[str, Callable[[HotPrefix], Call]] = {
    LOCK: lambda scenario: scenario.lock_and_unlock,
    OPEN: lambda scenario: scenario.open_and_abort,
    PEEK: lambda scenario: scenario.peek,
    IDLE: lambda scenario: scenario.lock_and_unlock,
}
Taken = dict[tuple[str, int], Samples]
"""Samples by what was called and the depth."""


def run(options: Options) -> Report:
    """See the module."""
    depths = (1, 8) if options.size == "tiny" else (1, 4, 16, 64, 256, 1024)
    holders = options.pick(tiny=5, full=1_000)
    num_samples, calls = options.pick(tiny=5, full=100), options.pick(tiny=2, full=20)
    scenarios = {depth: HotPrefix(depth, holders, options.page_size, options.seed) for depth in depths}
    taken = Taken()
    for names in ((LOCK,), (OPEN, PEEK)):
        taken |= _in_turn(scenarios, names, num_samples, calls)
    for scenario in scenarios.values():
        scenario.release()
    taken |= _in_turn(scenarios, (IDLE,), num_samples, calls)
    figures = [
        Figure(
            name=f"{name}, {depth:,} nodes",
            unit="us",
            samples=taken[name, depth],
            bound=_bound(taken, name, depth, depths[0]),
            limits=(FLAT,) if name == LOCK and depth != depths[0] else (),
        )
        for depth in depths
        for name in (LOCK, OPEN, IDLE)
    ]
    lines = {
        name: [median_point(depth, taken[name, depth]) for depth in depths]
        for name in (LOCK, IDLE, OPEN, PEEK)
    }
    return Report(
        name="lock",
        question="does holding a hot prefix cost more where its path is deep?",
        config={
            "nodes": list(depths),
            "holders": holders,
            "samples": num_samples,
            "calls_per_sample": calls,
        },
        figures=tuple(figures),
        pictures=(
            Picture(
                name="lock",
                title=f"Locking a prefix that {holders:,} sequences hold",
                x="nodes of the prefix",
                y="median CPU time [us]",
                lines=lines,
                promises={
                    "promised: flat": flat(lines[LOCK]),
                    "promised where idle: a + c x nodes": linear(lines[IDLE]),
                    "promised to open: a + c x nodes": linear(lines[OPEN]),
                },
            ),
        ),
        notes=(
            (
                "The last figure of each depth is the other end: the first holder of an idle path locks "
                "every node. `open` always walks the path, which `peek` beside it shows."
            ),
        ),
    )


def _in_turn(scenarios: dict[int, HotPrefix], names: tuple[str, ...], num_samples: int, calls: int) -> Taken:
    """Time these calls, all depths in turn, in a state that is checked before and after where it is held."""
    held = IDLE not in names
    for scenario in scenarios.values() if held else ():
        scenario.verify()
    keys = {f"{name} {depth}": (name, depth) for depth in scenarios for name in names}
    samples = alternate(
        {key: CALLS[name](scenarios[depth]) for key, (name, depth) in keys.items()},
        num_samples=num_samples,
        calls_per_sample=calls,
    )
    for scenario in scenarios.values() if held else ():
        scenario.verify()
    return {key: samples[text] for text, key in keys.items()}


def _bound(taken: Taken, name: str, depth: int, shallowest: int) -> Bound | None:
    if name == OPEN:
        return Bound(name="peek, the walk alone", samples=taken[PEEK, depth])
    if name == LOCK and depth != shallowest:
        return Bound(name=f"{shallowest} node", samples=taken[LOCK, shallowest])
    return None
