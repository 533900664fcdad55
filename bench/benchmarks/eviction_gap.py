"""How much of the gap between LRU and clairvoyant eviction each policy closes."""

from dataclasses import dataclass

import numpy as np

from bench.benchmarks.traces import trace_of
from bench.errors import expect
from bench.harness.report import Bound, Figure, Limit, Report
from bench.options import Options
from bench.scenarios.block_cache import found_blocks
from bench.scenarios.lru_loss import FULL_SIZES, GUARDED, TINY_SIZES, Loss, losses
from bench.workloads.generated_trace import generate
from bench.workloads.trace import BLOCK_SIZE, Trace
from radixcache import EVICTION_POLICIES
from runtime.lab import PageTrace, TraceBuilder, lru_curve, optimal_hits

FULL_CAPACITIES = (500_000, 1_000_000, 2_000_000, 3_000_000, 5_000_000)
TINY_CAPACITIES = (200_000, 400_000)
TINY_REQUESTS = 600
"""Fewer leave no gap."""

NUM_SEEDS = 3
MOST_POINTS_LOST = 1.0


@dataclass(frozen=True, slots=True)
class _Place:
    """Hit rates at one capacity."""

    capacity: int
    lru: float
    optimum: float

    def share(self, hit_rate: float) -> float:
        """Share of the gap that a hit rate closes; 0 where there is no gap."""
        gap = self.optimum - self.lru
        return (hit_rate - self.lru) / gap if gap else 0.0


def run(options: Options) -> Report:
    """See the module."""
    is_tiny = options.size == "tiny" and options.trace is None
    trace = generate(TINY_REQUESTS, options.seed) if is_tiny else trace_of(options)
    pages = _pages(trace)
    asked = int(pages.prompt_tokens.sum())
    curve = lru_curve(pages)
    figures, notes = [], []
    for capacity in TINY_CAPACITIES if options.size == "tiny" else FULL_CAPACITIES:
        num_blocks = capacity // BLOCK_SIZE
        place = _Place(
            capacity,
            lru=float(curve.hit_rate(num_blocks)),
            optimum=int(optimal_hits(pages, num_blocks).sum()) / asked,
        )
        for name in EVICTION_POLICIES:
            found = found_blocks(trace, num_blocks, name)
            if name == "lru":
                expect(f"blocks that LRU finds at {capacity}", found, int(curve.hit_tokens(num_blocks)))
            expect("no policy finds more than the optimum", found <= place.optimum * asked + 0.5, wanted=True)
            figures.append(_figure(place, name, found / asked))
            notes.append(_note(place, name, found / asked))
    is_small = options.size == "tiny"
    sizes, seeds = (TINY_SIZES, range(1)) if is_small else (FULL_SIZES, range(NUM_SEEDS))
    compared = list(losses(sizes, seeds))
    figures += [_loss_figure(name, compared) for name in GUARDED]
    notes += [_loss_note(name, compared) for name in GUARDED]
    return Report(
        name="eviction_gap",
        question="how much of the gap between LRU and clairvoyant eviction does each policy close, and what "
        "does it lose to LRU at worst?",
        config={"trace": trace.name, "requests": len(trace), "blocks": asked},
        figures=tuple(figures),
        notes=(
            "Prompts only, a page a block of 512 tokens, one after the other; no queue and no outputs.",
            "Nothing depends on a clock: a repetition gives the same hits, so each figure has one sample.",
            *notes,
        ),
    )


def _pages(trace: Trace) -> PageTrace:
    builder = TraceBuilder(1)
    for number in range(len(trace)):
        blocks = trace.blocks(number).astype(np.int32)
        size = len(blocks)
        builder.add(b"", blocks, prompt_tokens=size, match_pages=size, used_pages=size)
    return builder.build()


def _figure(place: _Place, name: str, hit_rate: float) -> Figure:
    return Figure(
        name=f"{name}, {place.capacity:,} tokens",
        unit="share of blocks",
        samples={"value": [hit_rate]},
        bound=Bound(name="clairvoyant", samples={"value": [place.optimum]}),
    )


def _note(place: _Place, name: str, hit_rate: float) -> str:
    return (
        f"{place.capacity:,} tokens, {name}: LRU {place.lru:.4f}, this {hit_rate:.4f}, optimum "
        f"{place.optimum:.4f}, {place.share(hit_rate):.1%} of the gap."
    )


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
