"""Looking up a cached prompt, beside comparing the same bytes."""

from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import alternate
from bench.options import Options
from bench.scenarios.cached_prompt import CachedPrompt

LIMIT = Limit(statistic="median", factor=3.0, plus=3.0)


def run(options: Options) -> Report:
    """See the module."""
    lengths = (1024,) if options.size == "tiny" else (8192, 32768, 131072)
    num_samples, calls = options.pick(tiny=5, full=200), options.pick(tiny=2, full=50)
    figures = []
    for num_tokens in lengths:
        scenario = CachedPrompt(num_tokens, options.page_size, options.seed)
        scenario.verify()
        samples = alternate(
            {"peek": scenario.peek, "==": scenario.compare}, num_samples=num_samples, calls_per_sample=calls
        )
        figures.append(
            Figure(
                name=f"peek, {num_tokens:,} tokens",
                unit="us",
                samples=samples["peek"],
                bound=Bound(name="== of the bytes", samples=samples["=="]),
                limits=(LIMIT,),
            )
        )
    return Report(
        name="peek",
        question="what does it take to find a cached prompt, beside reading it once?",
        config={"tokens": list(lengths), "samples": num_samples, "calls_per_sample": calls},
        figures=tuple(figures),
        notes=(
            "The prompt is a ready `Tokens`; making it is timed in making_tokens.",
            (
                "The prompt lies on one edge; a path of many nodes is timed in deep_path. A sample is the "
                "mean of its calls, so max is the slowest sample and no single call."
            ),
        ),
    )
