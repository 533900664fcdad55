"""The one-pass curve is what the real cache finds, request by request, at every capacity tried."""

import random
from pathlib import Path

import numpy as np
import pytest

from runtime.lab import lru_curve, page_trace
from runtime.workload import (
    GENERATORS,
    Generator,
    Literal,
    OutputOf,
    Segment,
    Session,
    Turn,
    Workload,
    load_trace,
)
from runtime.workload.generators import Agents, Chat, FewShot, Rag, TreeOfThought
from tests.exactness.lab_replay import Replay

NUM_TRIES = 2_400
PARTS = 6

SMALL: dict[str, Generator] = {
    "chat": Chat(num_sessions=60),
    "agents": Agents(num_sessions=4),
    "rag": Rag(num_sessions=60),
    "few-shot": FewShot(),
    "tree-of-thought": TreeOfThought(num_sessions=20),
}


def random_workload(rng: random.Random) -> Workload:
    """Short sessions over few tokens: prompts that start like others, equal them, or branch off midway."""
    alphabet = rng.choice((1, 2, 3))
    known: list[list[int]] = [[0]]
    sessions = []
    start_s = 0.0
    for name in range(rng.randrange(2, 10)):
        start_s += rng.choice((0.0, 1.0))
        turns: list[Turn] = []
        said: list[Segment | OutputOf] = []
        for number in range(rng.choice((1, 1, 2, 3))):
            text = [rng.randrange(alphabet) for _ in range(rng.randrange(1, 6))]
            if not number and rng.random() < 0.7:
                start = rng.choice(known)
                start = start[: rng.randrange(1, len(start) + 1)]
                text = start if rng.random() < 0.5 else start + text
            if not number:
                known.append(text)
            said.append(Literal(np.array(text, dtype=np.int32)))
            turns.append(
                Turn(
                    segments=tuple(said),
                    output_len=rng.randrange(1, 7),
                    after=(number - 1,) if number else (),
                    think_s=rng.choice((0.0, 0.5, 2.0)) if number else 0.0,
                    namespace=rng.choice((None, None, None, "other")) if not number else turns[0].namespace,
                )
            )
            said.append(OutputOf(number))
        sessions.append(Session(session_id=str(name), start_s=start_s, turns=tuple(turns)))
    return Workload(name="random", sessions=tuple(sessions))


@pytest.mark.parametrize("part", range(PARTS))
def test_hits_are_those_of_the_cache_on_random_tries(part: int) -> None:
    for seed in range(part, NUM_TRIES, PARTS):
        rng = random.Random(seed)
        workload, page_size, outputs = random_workload(rng), rng.choice((1, 2, 3, 4)), rng.random() < 0.6
        trace = page_trace(workload, page_size=page_size, outputs=outputs)
        curve = lru_curve(trace)
        least = trace.max_used_pages
        for num_pages in {least, least + 1, rng.randrange(least, least + trace.num_distinct + 2)}:
            expected = curve.hits_by_request(num_pages * page_size).tolist()
            replay = Replay(num_pages, page_size, outputs=outputs, refresh=True)
            assert replay.run(workload) == expected, f"seed {seed}, {num_pages} pages"
            if not trace.num_untouched:
                replay = Replay(num_pages, page_size, outputs=outputs, refresh=False)
                assert replay.run(workload) == expected, f"seed {seed}, {num_pages} pages"


def test_the_random_tries_contain_what_is_hard() -> None:
    traces = [
        page_trace(random_workload(random.Random(seed)), page_size=2, outputs=outputs)
        for seed in range(200)
        for outputs in (False, True)
    ]
    assert sum(trace.num_unmatched > trace.num_untouched for trace in traces) > 20
    assert sum(trace.num_untouched > 0 for trace in traces) > 20
    assert sum(trace.num_unmatched == 0 for trace in traces) > 20


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_hits_are_those_of_the_cache_on_generated_sessions(name: str) -> None:
    workload = SMALL[name].generate(seed=3)
    for outputs in (False, True):
        trace = page_trace(workload, page_size=16, outputs=outputs)
        curve = lru_curve(trace)
        least, most = trace.max_used_pages, curve.full_capacity_tokens // 16
        capacities = {least, least + 1, least + 17, *(least + (most - least) * k // 7 for k in (1, 3, 5, 7))}
        for num_pages in capacities:
            replay = Replay(num_pages, 16, outputs=outputs, refresh=True)
            assert replay.run(workload) == curve.hits_by_request(num_pages * 16).tolist()


@pytest.mark.shared_data
@pytest.mark.parametrize(("page_size", "outputs"), [(512, False), (16, True)])
def test_hits_are_those_of_the_cache_on_the_conversation_trace(
    shared: Path, page_size: int, outputs: bool
) -> None:
    workload = load_trace(shared / "data" / "traces" / "mooncake_conversation.jsonl")
    trace = page_trace(workload, page_size=page_size, outputs=outputs)
    curve = lru_curve(trace)
    for capacity in (curve.min_capacity_tokens, 320_000, 1_000_000, 3_000_000, 10_000_000, 50_000_000):
        replay = Replay(capacity // page_size, page_size, outputs=outputs, refresh=False)
        assert replay.run(workload) == curve.hits_by_request(capacity).tolist()
