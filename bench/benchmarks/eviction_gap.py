"""How much of the gap between LRU and clairvoyant eviction each policy closes."""

from collections.abc import Iterator

from bench.benchmarks.traces import trace_of
from bench.harness.report import Figure, Limit, Report
from bench.options import Options
from bench.scenarios.block_cache import BlockRequest, found_blocks, pages_of
from bench.scenarios.eviction_place import EvictionPlace
from bench.scenarios.lru_loss import FULL_SIZES, GUARDED, TINY_SIZES, Loss, losses
from bench.workloads.generated_trace import generate
from bench.workloads.trace import BLOCK_SIZE, Trace
from radixcache import EVICTION_POLICIES
from runtime.lab import lru_curve

FULL_CAPACITIES = (500_000, 1_000_000, 2_000_000, 3_000_000, 5_000_000)
TINY_CAPACITIES = (200_000, 400_000)
TINY_REQUESTS = 600
"""Fewer leave no gap."""

NUM_SEEDS = 3
MOST_POINTS_LOST = 1.0


def run(options: Options) -> Report:
    """See the module."""
    is_tiny = options.size == "tiny" and options.trace is None
    trace = generate(TINY_REQUESTS, options.seed) if is_tiny else trace_of(options)
    pages = pages_of(_requests(trace))
    curve = lru_curve(pages)
    figures, notes = [], []
    for capacity in TINY_CAPACITIES if options.size == "tiny" else FULL_CAPACITIES:
        num_blocks = capacity // BLOCK_SIZE
        place = EvictionPlace.of(f"{capacity:,} tokens", pages, curve, num_blocks)
        for name in EVICTION_POLICIES:
            found = found_blocks(_requests(trace), num_blocks, name)
            place.check(name, found)
            figures.append(place.figure(name, found))
            notes.append(place.note(name, found))
    is_small = options.size == "tiny"
    sizes, seeds = (TINY_SIZES, range(1)) if is_small else (FULL_SIZES, range(NUM_SEEDS))
    compared = list(losses(sizes, seeds))
    figures += [_loss_figure(name, compared) for name in GUARDED]
    notes += [_loss_note(name, compared) for name in GUARDED]
    return Report(
        name="eviction_gap",
        question="how much of the gap between LRU and clairvoyant eviction does each policy close, and what "
        "does it lose to LRU at worst?",
        config={"trace": trace.name, "requests": len(trace), "blocks": pages.num_touches},
        figures=tuple(figures),
        notes=(
            "Prompts only, a page a block of 512 tokens, one after the other; no queue and no outputs.",
            "Nothing depends on a clock: a repetition gives the same hits, so each figure has one sample.",
            *notes,
        ),
    )


def _requests(trace: Trace) -> Iterator[BlockRequest]:
    return ((None, trace.blocks(number)) for number in range(len(trace)))


def _loss_figure(name: str, compared: list[Loss]) -> Figure:
    return Figure(
        name=f"{name}, lost to LRU on generated workloads",
        unit="points of hit rate",
        samples={"value": [loss.points(name) for loss in compared]},
        limits=(Limit(statistic="max", plus=MOST_POINTS_LOST),),
    )


def _loss_note(name: str, compared: list[Loss]) -> str:
    worst = max(compared, key=lambda loss: loss.points(name))
    return (
        f"{name}, {len(compared)} generated workloads and capacities: at worst {worst.points(name):.2f} "
        f"points below LRU ({worst.workload}, seed {worst.seed}, {worst.share:.0%} of its distinct pages)."
    )
