"""What a published chunk costs the queue when everybody waits for it."""

from bench.harness.report import Figure, Limit, Report
from bench.harness.timing import empty_section, frozen_heap
from bench.options import Options
from bench.scenarios.cold_prefix import CHUNK, EVICTION, PARTING, TAIL_PAGES, ColdPrefix
from scheduler.policies import QUEUE_POLICIES

PREFIX_PAGES, CHUNK_PAGES = 520, 32
LIMIT = Limit(statistic="max", plus=1000.0)
WHERE = {False: "parting behind it", True: "parting all along it"}


def run(options: Options) -> Report:
    """See the module."""
    num_waiting = options.pick(tiny=50, full=10_000)
    prefix_pages = options.pick(tiny=20, full=PREFIX_PAGES)
    chunk_pages = options.pick(tiny=8, full=CHUNK_PAGES)
    rounds = options.pick(tiny=2, full=10)
    figures = [Figure(name="an empty timed section", unit="us", samples=empty_section(1_000))]
    for spread, where in WHERE.items():
        for policy in QUEUE_POLICIES:
            scenario = ColdPrefix(
                policy,
                num_waiting,
                prefix_pages=prefix_pages,
                chunk_pages=chunk_pages,
                page_size=options.page_size,
                seed=options.seed,
                spread=spread,
            )
            scenario.verify()
            with frozen_heap():
                for _ in range(5 if spread and options.size == "full" else rounds):
                    scenario.lead()
            figures += [
                Figure(
                    name=f"{kind}, {policy}, {where}",
                    unit="us",
                    samples=scenario.meter.samples(kind),
                    limits=() if kind == EVICTION else (LIMIT,),
                )
                for kind in (CHUNK, PARTING, EVICTION)
            ]
    return Report(
        name="published_chunk",
        question="what does a published chunk cost the queue when everybody waits for it?",
        config={
            "waiting": num_waiting,
            "prefix_pages": prefix_pages,
            "tail_pages": TAIL_PAGES,
            "chunk_pages": chunk_pages,
            "rounds": rounds,
        },
        figures=tuple(figures),
        notes=(
            (
                "A leader, which runs, publishes the prefix chunk by chunk and then a tail of its own; in "
                "the chunk with the end of the prefix all others part from it. Timed is what the queue does: "
                "following the leader, and the published run."
            ),
            (
                "'Parting all along it': requests leave the prefix behind each of its pages, as many as "
                "behind any other, so a chunk moves past as many points as it has pages."
            ),
            (
                "Before the timing the leader was stopped at the start, after one chunk, halfway and at the "
                "end; each time the next request was the one that the oracle of queue_dispatch names."
            ),
        ),
    )
