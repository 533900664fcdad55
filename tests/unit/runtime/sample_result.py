"""A synthetic result with plausible numbers, for tests of what comes after a simulation."""

import math

import numpy as np

from runtime.result import (
    BASELINE_LABEL,
    CACHE_LABEL,
    Json,
    RequestRecord,
    RunResult,
    SimulationResult,
    TimelineSample,
    TreeBox,
)

PAGE_SIZE = 16
NUM_PAGES = 20_000


def record(**changes: object) -> RequestRecord:
    """A finished request of 100 prompt tokens, 64 of them matched; change what a test is about."""
    values: dict[str, object] = {
        "request_id": "r0",
        "session_id": "s0",
        "turn": 0,
        "kind": "first",
        "arrival_s": 1.0,
        "first_scheduled_s": 1.5,
        "first_token_s": 2.0,
        "finished_s": 5.0,
        "prompt_tokens": 100,
        "matched_tokens": 64,
        "copied_tokens": 0,
        "computed_prompt_tokens": 36,
        "recomputed_tokens": 0,
        "output_tokens": 4,
        "miss": {"never_seen": 35, "last_token": 1},
        "preemptions": 0,
        "status": "finished",
    }
    return RequestRecord(**(values | changes))  # type: ignore[arg-type]


def sample(time_s: float, **changes: int) -> TimelineSample:
    """A sample of an empty pool of ten pages; change what a test is about."""
    values = {
        "free_pages": 10,
        "private_pages": 0,
        "evictable_pages": 0,
        "locked_pages": 0,
        "waiting": 0,
        "running": 0,
        "matched_tokens": 0,
        "prompt_tokens": 0,
        "output_tokens": 0,
    }
    return TimelineSample(time_s=time_s, **(values | changes))


def run(requests: list[RequestRecord] | None = None, **changes: object) -> RunResult:
    """A run of ten simulated seconds."""
    values: dict[str, object] = {
        "label": CACHE_LABEL,
        "requests": [record()] if requests is None else requests,
        "timeline": [],
        "counters": {},
        "makespan_s": 10.0,
        "last_arrival_s": 1.0,
        "offered_load": 0.5,
        "backlog_at_last_arrival": 1,
        "tree": [],
    }
    return RunResult(**(values | changes))  # type: ignore[arg-type]


def simulation(*runs: RunResult, **changes: object) -> SimulationResult:
    """A result of these runs with hardly any configuration."""
    values: dict[str, object] = {
        "config": {"workload": {"name": "tiny"}},
        "seed": 0,
        "versions": {"radixcache": "0.1.0"},
        "notes": [],
        "warnings": [],
        "runs": list(runs),
    }
    return SimulationResult(**(values | changes))  # type: ignore[arg-type]


def plausible_result(num_requests: int = 400, num_samples: int = 300, seed: int = 7) -> SimulationResult:
    """A multi-turn workload with and without the cache, with every status and field in use."""
    return SimulationResult(
        config=_config(),
        seed=seed,
        versions={"numpy": "2.4.6", "plotly": "7.1.0", "radixcache": "0.1.0"},
        notes=["Outputs of the trace have no ids: they occupy the cache and never hit."],
        warnings=["no cache: offered load is 1.31 times the capacity, backlog at the end 212."],
        runs=[
            _run(BASELINE_LABEL, num_requests, num_samples, np.random.default_rng(seed)),
            _run(CACHE_LABEL, num_requests, num_samples, np.random.default_rng(seed)),
        ],
    )


def _config() -> dict[str, Json]:
    return {
        "workload": {"name": "multi-turn chat", "sessions": 120, "turns": [2, 8], "rate": 1.5},
        "cache": {"num_pages": NUM_PAGES, "page_size": PAGE_SIZE, "eviction": "lru"},
        "scheduler": {"policy": "fcfs", "token_budget": 8192, "max_running": 256},
        "cost_model": {
            "model": {"name": "Llama-3.1-8B", "parameters": 8.03e9, "weight_dtype": "bfloat16"},
            "gpu": {"name": "H100 SXM", "peak_flops": 9.89e14, "bandwidth_bytes_per_s": 3.35e12},
            "flops_fraction": 0.55,
            "bandwidth_fraction": 0.7,
            "launch_overhead_s": 2.5e-5,
            "kv_dtype": "bfloat16",
            "tp": 1,
            "sources": ["NVIDIA H100 data sheet", "Llama 3.1 model card"],
        },
    }


def _run(label: str, num_requests: int, num_samples: int, rng: np.random.Generator) -> RunResult:
    cached = label == CACHE_LABEL
    arrivals = np.cumsum(rng.exponential(0.8, num_requests))
    requests = [_request(i, float(arrivals[i]), cached, rng) for i in range(num_requests)]
    makespan = float(arrivals[-1]) + (30.0 if cached else 160.0)
    return RunResult(
        label=label,
        requests=requests,
        timeline=_timeline(num_samples, makespan, cached, rng),
        counters={"evictions": 81_234 if cached else 0, "steps": 40_321 if cached else 51_002},
        makespan_s=makespan,
        last_arrival_s=float(arrivals[-1]),
        offered_load=0.62 if cached else 1.31,
        backlog_at_last_arrival=14 if cached else 212,
        tree=_tree(rng) if cached else [],
    )


def _request(number: int, arrival: float, cached: bool, rng: np.random.Generator) -> RequestRecord:
    turn = number % 5
    prompt = 900 + 1400 * turn + int(rng.integers(0, 800))
    share = float(rng.beta(9, 2)) if turn else float(rng.beta(2, 4))
    chance, slow = float(rng.random()), float(rng.lognormal(0, 0.6))
    matched = int(prompt * share) // PAGE_SIZE * PAGE_SIZE if cached else 0
    computed = prompt - matched
    queue = slow * (0.03 if cached else 0.4 + arrival / 60)
    first_token = arrival + queue + computed * 3.2e-5 * (0.7 + slow)
    output = 1 + int(rng.exponential(180))
    common = {
        "request_id": f"s{number // 5}.{turn}",
        "session_id": f"s{number // 5}",
        "turn": turn,
        "kind": ("first", "follow-up", "tool result", "sub-agent", "follow-up")[turn],
        "arrival_s": arrival,
        "prompt_tokens": prompt,
    }
    if number % 97 == 13:
        return record(**common, **_never_admitted())
    evicted = int(computed * 0.3 * chance) if cached else 0
    flight = int(computed * 0.1 * chance) if cached else 0
    return record(
        **common,
        first_scheduled_s=arrival + queue,
        first_token_s=first_token,
        finished_s=first_token + output * 0.021 * (0.8 + slow / 2),
        matched_tokens=matched,
        computed_prompt_tokens=computed,
        recomputed_tokens=prompt // 2 if number % 53 == 0 else 0,
        output_tokens=output,
        miss={
            "never_seen": computed - evicted - flight - 1,
            "evicted": evicted,
            "in_flight": flight,
            "last_token": 1,
        },
        preemptions=int(number % 53 == 0),
    )


def _never_admitted() -> dict[str, object]:
    return {
        "first_scheduled_s": None,
        "first_token_s": None,
        "finished_s": None,
        "matched_tokens": 0,
        "computed_prompt_tokens": 0,
        "output_tokens": 0,
        "miss": {},
        "status": "refused",
        "error": "request needs 20480 pages, the pool has 20000; longest servable: 320000 tokens",
    }


def _timeline(
    num_samples: int, makespan: float, cached: bool, rng: np.random.Generator
) -> list[TimelineSample]:
    samples, prompt_tokens, matched_tokens, output_tokens = [], 0, 0, 0
    for i in range(num_samples):
        done = i / max(1, num_samples - 1)
        prompt = int(rng.integers(0, 24_000))
        prompt_tokens += prompt
        matched_tokens += int(prompt * (0.75 * (1 - math.exp(-done * 9)))) if cached else 0
        output_tokens += int(rng.integers(0, 1500))
        running = int(14 + 9 * math.sin(done * 9) + rng.integers(0, 5))
        private = running * 60
        locked = running * 180 if cached else 0
        cached_pages = int((NUM_PAGES - private) * min(1.0, done * 3)) if cached else 0
        evictable = max(0, cached_pages - locked)
        locked = min(locked, cached_pages)
        samples.append(
            TimelineSample(
                time_s=done * makespan,
                free_pages=NUM_PAGES - private - evictable - locked,
                private_pages=private,
                evictable_pages=evictable,
                locked_pages=locked,
                waiting=int(rng.integers(0, 9)) if cached else int(done * 200 + rng.integers(0, 9)),
                running=running,
                matched_tokens=matched_tokens,
                prompt_tokens=prompt_tokens,
                output_tokens=output_tokens,
            )
        )
    return samples


def _tree(rng: np.random.Generator) -> list[TreeBox]:
    return [
        _box(0, tokens, name, rng)
        for name, tokens in (("system prompt A", 2048), ("system prompt B", 1024), ("rest", 640))
    ]


def _box(depth: int, tokens: int, label: str, rng: np.random.Generator, level: int = 0) -> TreeBox:
    width = (7, 3, 2, 1, 0)[level]
    children = [
        _box(
            depth + tokens,
            PAGE_SIZE * int(rng.integers(4, 60)),
            f"{PAGE_SIZE * (level + i)}…",
            rng,
            level + 1,
        )
        for i in range(width if rng.random() > 0.15 else 0)
    ]
    locked = any(child.locked for child in children) or bool(rng.random() < 0.08)
    return TreeBox(depth_tokens=depth, num_tokens=tokens, locked=locked, children=children, label=label)
