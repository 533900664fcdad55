"""Making `Tokens` out of what engines hold, beside copying the same bytes."""

from array import array
from functools import partial

import numpy as np

from bench.errors import expect
from bench.harness.report import Bound, Figure, Report
from bench.harness.timing import alternate
from bench.options import Options
from bench.workloads.material import random_ids
from radixcache import Tokens


def run(options: Options) -> Report:
    """See the module."""
    lengths = (1024,) if options.size == "tiny" else (8192, 32768, 131072)
    num_samples, calls = options.pick(tiny=5, full=30), options.pick(tiny=2, full=5)
    figures: list[Figure] = []
    for num_tokens in lengths:
        ids = random_ids(options.seed, num_tokens)
        sources = {
            "list": ids.tolist(),
            "array('i')": array("i", ids.tolist()),
            "NumPy int32": ids,
            "NumPy int64": ids.astype(np.int64),
        }
        for name, source in sources.items():
            expect(f"ids out of {name}", Tokens(source).numpy().tolist(), ids.tolist())
        samples = alternate(
            {"copy": ids.tobytes} | {name: partial(Tokens, source) for name, source in sources.items()},
            num_samples=num_samples,
            calls_per_sample=calls,
        )
        figures.extend(
            Figure(
                name=f"Tokens out of {name}, {num_tokens:,} tokens",
                unit="us",
                samples=samples[name],
                bound=Bound(name="copy of the bytes", samples=samples["copy"]),
            )
            for name in sources
        )
    return Report(
        name="making_tokens",
        question="what does it take to make the token buffer, once for each request?",
        config={"tokens": list(lengths), "samples": num_samples, "calls_per_sample": calls},
        figures=tuple(figures),
        notes=("Includes the check of every id. Out of a list, Python's own loop over its integers rules.",),
    )
