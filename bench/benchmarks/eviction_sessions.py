"""The share of the gap to clairvoyant eviction that is closed among sessions of agents."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.harness.report import Figure, Report
from bench.options import Options
from bench.scenarios.block_cache import BlockRequest, found_blocks, pages_of
from bench.scenarios.eviction_place import EvictionPlace
from runtime.lab import lru_curve
from runtime.lab.order import AnswerTimes
from runtime.lab.pages import request_paths
from runtime.workload import Workload
from runtime.workload.generators.agents import Agents
from runtime.workload.traces import TraceOptions, load_trace

ANSWERS = AnswerTimes(first_token_s=1.0, token_s=0.02)
POLICIES = ("lru", "gdsf", "tlru", "wa", "hazard")
RECORDED_CAPACITIES = (1_000_000, 3_000_000)
GENERATED_CAPACITIES = (50_000, 100_000)
NUM_SEEDS = 3
NUM_SESSIONS = 60


def run(options: Options) -> Report:
    """See the module."""
    is_recorded = options.agents is not None
    seeds = range(options.seed, options.seed + options.pick(tiny=1, full=NUM_SEEDS))
    figures: list[Figure] = []
    notes: list[str] = []
    sizes: dict[str, int] = {}
    for seed in seeds:
        workload = _workload(options, seed)
        block_size = workload.block_size or options.page_size
        pages = pages_of(_requests(workload, block_size))
        curve = lru_curve(pages)
        sizes = {"block_size": block_size, "requests": len(pages), "blocks": pages.num_touches}
        for capacity in RECORDED_CAPACITIES if is_recorded else GENERATED_CAPACITIES:
            num_blocks = capacity // block_size
            place = EvictionPlace.of(f"{capacity:,} tokens, seed {seed}", pages, curve, num_blocks)
            for name in POLICIES:
                found = found_blocks(_requests(workload, block_size), num_blocks, name)
                place.check(name, found)
                figures.append(place.figure(name, found))
                notes.append(place.note(name, found))
    return Report(
        name="eviction_sessions",
        question="how much of the gap between LRU and clairvoyant eviction does each policy close among "
        "sessions of agents?",
        config={
            "sessions": "generated agents" if options.agents is None else Path(options.agents).name,
            "seeds": list(seeds),
            "first_token_s": ANSWERS.first_token_s,
            "token_s": ANSWERS.token_s,
            **sizes,
        },
        figures=tuple(figures),
        notes=(
            (
                "Prompts only, a page a block, one after the other. An answer takes "
                f"{ANSWERS.first_token_s:g} s and {1000 * ANSWERS.token_s:g} ms a token, then comes the "
                "recorded pause: so sessions are alive beside one another as they would be. Their starts are "
                "drawn by the seed."
            ),
            "Nothing depends on a clock: a repetition gives the same hits, so each figure has one sample.",
            *notes,
        ),
    )


def _workload(options: Options, seed: int) -> Workload:
    if options.agents is not None:
        return load_trace(options.agents, options=TraceOptions(seed=seed))
    return Agents(num_sessions=options.pick(tiny=20, full=NUM_SESSIONS)).generate(seed)


def _requests(workload: Workload, block_size: int) -> Iterator[BlockRequest]:
    """Blocks of each prompt; ids of blocks that are no run of tokens come from above."""
    for turn, keys, _ in request_paths(workload, page_size=block_size, outputs=False, answers=ANSWERS):
        yield turn.namespace, np.where(keys < 0, keys + np.int32(2**31 - 1), keys)
