"""Opening, reading and closing a path of many nodes."""

from bench.harness.promises import linear, median_point
from bench.harness.report import Bound, Figure, Limit, Picture, Points, Report
from bench.harness.timing import alternate
from bench.options import Options
from bench.scenarios.deep_path import DeepPath

LIMIT = Limit(statistic="median", plus=300.0)
LIMITED_DEPTH = 512
BOUND = "startswith loop"


def run(options: Options) -> Report:
    """See the module."""
    depths = (2, 8) if options.size == "tiny" else (1, 8, 64, LIMITED_DEPTH, 4096)
    num_samples = options.pick(tiny=5, full=200)
    figures: list[Figure] = []
    lines: dict[str, Points] = {}
    for depth in depths:
        scenario = DeepPath(depth, options.page_size, options.seed)
        scenario.verify()
        samples = alternate(
            {
                "open + page_table + close": scenario.open_and_close,
                "open + page_table + abort": scenario.open_and_abort,
                "peek": scenario.peek,
                BOUND: scenario.compare_edges,
            },
            num_samples=num_samples,
            calls_per_sample=1,
        )
        scenario.verify()
        for name, taken in samples.items():
            lines.setdefault(name, []).append(median_point(depth, taken))
        bound = Bound(name=BOUND, samples=samples.pop(BOUND))
        figures.extend(
            Figure(
                name=f"{name}, {depth:,} nodes",
                unit="us",
                samples=taken,
                bound=bound,
                limits=(LIMIT,) if depth == LIMITED_DEPTH and name.endswith("close") else (),
            )
            for name, taken in samples.items()
        )
    return Report(
        name="deep_path",
        question="what does a path cost that is cut into many nodes?",
        config={"nodes": list(depths), "pages_per_node": 1, "samples": num_samples},
        figures=tuple(figures),
        notes=(
            (
                "Something branches off behind each node, so that none can be merged. Nobody else holds the "
                "path: every node is locked and unlocked, the worst case."
            ),
            "The bound is a Python loop of as many `startswith` as there are edges, and nothing else.",
        ),
        pictures=(
            Picture(
                name="deep_path",
                title="Opening and closing a path of many nodes",
                x="nodes of the path",
                y="median CPU time [us]",
                lines=lines,
                promises={
                    f"promised: a + c x nodes ({name})": linear(points)
                    for name, points in lines.items()
                    if name != BOUND
                },
            ),
        ),
    )
