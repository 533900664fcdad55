"""The small trace, served by one cache and one scheduler in steps of an engine that takes no time."""

import hashlib
import json
from itertools import count
from pathlib import Path
from typing import Any

from radixcache import CacheConfig, PrefixCache, check
from scheduler import Request, Scheduler, SchedulerConfig

HERE = Path(__file__).parent
TRACE = HERE / "trace.jsonl"
EXPECTED = HERE / "expected.json"


def read_trace() -> list[dict[str, Any]]:
    """Requests: the step before which each comes, its prompt as runs of [first id, length], its output."""
    return [json.loads(line) for line in TRACE.read_text().splitlines()]


def replay(
    eviction: str, policy: str, *, partial_reuse: bool = False, share_in_flight: bool = True
) -> dict[str, Any]:
    """Exact counts of one replay, and a digest of every plan and every output."""
    cache = PrefixCache(
        CacheConfig(num_pages=64, page_size=8, eviction=eviction, partial_reuse=partial_reuse)
    )
    settings = SchedulerConfig(
        policy=policy,
        token_budget=96,
        prefill_chunk_tokens=64,
        max_running=8,
        share_in_flight=share_in_flight,
    )
    scheduler = Scheduler(cache, settings)
    waiting, fresh, plans = read_trace(), count(1_000_000), hashlib.sha256()
    requests: list[Request] = []
    num_steps = num_preemptions = 0
    while waiting or not scheduler.is_idle:
        while waiting and waiting[0]["step"] <= num_steps:
            line = waiting.pop(0)
            prompt = [token for first, length in line["prompt"] for token in range(first, first + length)]
            name = f"r{len(requests)}"
            requests.append(Request.of(name, prompt, line["output"], priority=line["priority"]))
            scheduler.submit(requests[-1], num_steps)
        plan = scheduler.schedule(num_steps)
        num_steps += 1
        num_preemptions += len(plan.preempted)
        rows = [(row.request.number, row.start, row.extend_len, row.max_tokens) for row in plan.rows]
        copies = [copy.num_tokens for copy in plan.copies]
        plans.update(repr((rows, copies, [request.number for request in plan.preempted])).encode())
        if plan:
            outputs = {
                row.request.request_id: [next(fresh) for _ in range(row.max_tokens)]
                for row in plan.rows
                if row.max_tokens
            }
            scheduler.commit(plan, outputs, num_steps)
    check(cache)
    stats = cache.stats
    return {
        "steps": num_steps,
        "prompt tokens": stats.prompt_tokens,
        "matched tokens": stats.matched_tokens,
        "copied tokens": stats.copied_tokens,
        "evicted pages": stats.evicted_pages,
        "eviction runs": stats.evictions,
        "duplicate pages": stats.duplicate_pages,
        "preemptions": num_preemptions,
        "recomputed tokens": sum(request.recomputed_tokens for request in requests),
        "missed tokens": {reason.value: tokens for reason, tokens in sorted(stats.missed_tokens.items())},
        "nodes at the end": stats.num_nodes,
        "plans": plans.hexdigest()[:16],
    }
