"""What it takes to make the arrays of a step for the attention kernel, beside copying them."""

from bench.harness.report import Bound, Figure, Limit, Report
from bench.harness.timing import Stopwatch, frozen_heap
from bench.options import Options

US_PER_ROW = 1.0
ASKED_FOR = 256
"""Rows for which that is asked; fewer have to share the fixed part of a step, some 30 us."""


def run(options: Options) -> Report:
    """See the module."""
    # torch comes with it, and no other benchmark should have it in its process
    from bench.scenarios.decoding_batch import DecodingBatch

    tiny = options.size == "tiny"
    sizes = ((4, 64),) if tiny else ((16, 8192), (256, 512), (256, 8192))
    num_steps = options.pick(tiny=3, full=200)
    limit = Limit(statistic="median", factor=1.0, plus=US_PER_ROW * ASKED_FOR)
    figures = []
    for num_running, num_tokens in sizes:
        scenario = DecodingBatch(
            num_running,
            num_tokens,
            num_steps=num_steps + 2,
            page_size=options.page_size,
            seed=options.seed,
        )
        building, copying = Stopwatch(), Stopwatch()
        with frozen_heap():
            for _ in range(2):
                scenario.step(Stopwatch(), Stopwatch())
            for _ in range(num_steps):
                scenario.step(building, copying)
        scenario.verify()
        figures.append(
            Figure(
                name=f"metadata, {num_running} rows of {num_tokens:,} tokens decode",
                unit="us",
                samples=building.samples(),
                bound=Bound(name="copy of such arrays", samples=copying.samples()),
                limits=(limit,) if num_running == ASKED_FOR else (),
            )
        )
    return Report(
        name="step_metadata",
        question="what does a step cost before its kernels, for the arrays that say which pages they read?",
        config={"rows": [rows for rows, _ in sizes], "tokens": [tokens for _, tokens in sizes]},
        figures=tuple(figures),
        notes=(
            (
                "The limit is 1 us a row on top of copying the arrays. A page ends every "
                f"{options.page_size} tokens, at another step for each row, so in every step some page "
                "tables grow; all arrays are compared with the page tables at every step."
            ),
        ),
    )
