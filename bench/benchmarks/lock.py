"""Locking a prefix that a thousand live sequences share, at several depths."""

from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import Samples, alternate
from bench.options import Options
from bench.scenarios.hot_prefix import HotPrefix

FLAT = Limit(statistic="median", factor=1.5, source="ours, for 'independent of depth'")


def run(options: Options) -> Report:
    """See the module."""
    depths = (1, 8) if options.size == "tiny" else (1, 64, 1024)
    holders = options.pick(tiny=5, full=1_000)
    num_samples, calls = options.pick(tiny=5, full=100), options.pick(tiny=2, full=20)
    figures: list[Figure] = []
    shallow: Samples | None = None
    for depth in depths:
        scenario = HotPrefix(depth, holders, options.page_size, options.seed)
        scenario.verify()
        samples = alternate(
            {
                "lock": scenario.lock_and_unlock,
                "open": scenario.open_and_abort,
                "peek": scenario.peek,
            },
            num_samples=num_samples,
            calls_per_sample=calls,
        )
        scenario.verify()
        scenario.release()
        idle = alternate({"lock": scenario.lock_and_unlock}, num_samples=num_samples, calls_per_sample=calls)
        figures += [
            Figure(
                name=f"lock + unlock, {depth:,} nodes",
                unit="us",
                samples=samples["lock"],
                bound=None if shallow is None else Bound(name=f"{depths[0]} node", samples=shallow),
                limits=() if shallow is None else (FLAT,),
            ),
            Figure(
                name=f"open + abort, {depth:,} nodes",
                unit="us",
                samples=samples["open"],
                bound=Bound(name="peek, the walk alone", samples=samples["peek"]),
            ),
            Figure(
                name=f"lock + unlock where nobody holds it, {depth:,} nodes",
                unit="us",
                samples=idle["lock"],
            ),
        ]
        shallow = shallow or samples["lock"]
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
        notes=(
            (
                "The third figure of each depth is the other end: the first holder of an idle path locks "
                "every node. `open` always walks the path, which `peek` beside it shows."
            ),
        ),
    )
