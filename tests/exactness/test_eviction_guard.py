"""No policy that learns or weighs costs finds a point less than LRU, whatever the traffic and capacity."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from radixcache import CacheConfig, PrefixCache
from runtime.lab import PageTrace, TraceBuilder, lru_curve, page_trace
from runtime.workload import Workload, find_generator
from tests.exactness.lab_replay import OWN_TOKEN, Ids, Replay

PAGE_SIZE = 64
POINT = 0.01
GUARDED = pytest.mark.parametrize("eviction", ["gdsf", "tlru", "wa", "hazard"])
NUM_SESSIONS = {"chat": 250, "agents": 60, "rag": 400, "tree-of-thought": 40}
SHARES = (0.05, 0.15, 0.4)
"""Capacities, as shares of all different pages; all but the largest see ten turnovers and more."""

CONVERSATION_BLOCKS = (976, 1_953, 5_859)


@pytest.fixture(scope="module", params=list(NUM_SESSIONS))
def generated(request) -> tuple[Workload, PageTrace]:
    workload = find_generator(request.param)(num_sessions=NUM_SESSIONS[request.param]).generate(3)
    return workload, page_trace(workload, page_size=PAGE_SIZE)


@GUARDED
def test_a_point_of_hit_rate_at_most_on_generated_workloads(eviction: str, generated) -> None:
    workload, pages = generated
    curve, asked = lru_curve(pages), int(pages.prompt_tokens.sum())
    for share in SHARES:
        num_pages = max(int(share * pages.num_distinct), pages.max_used_pages)
        found = Replay(num_pages, PAGE_SIZE, outputs=True, refresh=True, eviction=eviction).run(workload)
        lead = (sum(found) * PAGE_SIZE - int(curve.hit_tokens(num_pages * PAGE_SIZE))) / asked
        assert lead > -POINT, (workload.name, num_pages)


@pytest.fixture(scope="module")
def conversation(shared: Path) -> list[Ids]:
    """The first quarter of the requests, a token a block."""
    with (shared / "data/traces/mooncake_conversation.jsonl").open() as lines:
        return [np.array(json.loads(line)["hash_ids"], np.int32) for line in islice(lines, 3000)]


@pytest.mark.shared_data
@GUARDED
def test_a_point_of_hit_rate_at_most_on_a_trace(eviction: str, conversation) -> None:
    builder = TraceBuilder(1)
    for path in conversation:
        builder.add(b"", path, prompt_tokens=len(path), match_pages=len(path), used_pages=len(path))
    curve = lru_curve(builder.build())
    prompts = [np.concatenate((path, OWN_TOKEN)) for path in conversation]
    for num_pages in CONVERSATION_BLOCKS:
        cache = PrefixCache(CacheConfig(num_pages=num_pages + 1, page_size=1, eviction=eviction))
        found = sum(serve_prefix(cache, prompt) for prompt in prompts)
        assert found - int(curve.hit_tokens(num_pages)) > -POINT * curve.prompt_tokens, num_pages


def serve_prefix(cache: PrefixCache, prompt: Ids) -> int:
    """Leave all but the last token in the cache; tokens found."""
    with cache.open(prompt) as seq:
        missing = len(prompt) - 1 - seq.matched_len
        seq.reserve(missing + 1)
        seq.advance(missing)
    return seq.matched_len
