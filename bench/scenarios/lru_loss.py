"""What a policy loses against recency on generated workloads, at every capacity."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from radixcache import CacheConfig, Namespace, PrefixCache, Tokens, check
from runtime.lab import page_trace
from runtime.lab.order import nominal_order
from runtime.workload import FRESH_TOKEN_BASE, GENERATORS, Generator, Workload, prompt_of
from runtime.workload.model import TokenArray

PAGE_SIZE = 16
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Capacities, as shares of the distinct pages."""

FULL_SIZES = {"chat": 100, "agents": 30, "rag": 150, "few-shot": 400, "tree-of-thought": 15}
TINY_SIZES = {"chat": 15, "rag": 40, "few-shot": 100}
"""Sessions by workload; questions of few-shot."""

GUARDED = ("gdsf", "wa", "hazard")
"""Policies that promise to lose no more than a point."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A request: what is asked, and what of the answer has KV."""

    namespace: Namespace
    prompt: Tokens
    answer: bytes


@dataclass(frozen=True, slots=True)
class Loss:
    """Hit rates at one capacity of one workload."""

    workload: str
    seed: int
    share: float
    rates: dict[str, float]
    """By policy."""

    def points(self, policy: str) -> float:
        """Points of hit rate that a policy loses to LRU; negative where it gains."""
        return 100 * (self.rates["lru"] - self.rates[policy])


def losses(
    sizes: dict[str, int],
    seeds: range,
    *,
    policies: tuple[str, ...] = GUARDED,
    shares: tuple[float, ...] = SHARES,
) -> Iterator[Loss]:
    """Replay each generated workload with LRU and with each policy, requests one after the other.

    Args:
        sizes: Sessions, or questions, by name in `GENERATORS`.
        seeds: Seeds of each.
        policies: Names in `EVICTION_POLICIES`.
        shares: Capacities as shares of the distinct pages; one that cannot hold the longest request is
            left out.

    Yields:
        One for each workload, seed and capacity.
    """
    for name, size in sizes.items():
        for seed in seeds:
            workload = _generator(name, size).generate(seed)
            pages = page_trace(workload, page_size=PAGE_SIZE)
            requests = list(_requests(workload))
            for share in shares:
                num_pages = int(share * pages.num_distinct)
                if num_pages > pages.max_used_pages:
                    rates = {each: _hit_rate(requests, num_pages, each) for each in ("lru", *policies)}
                    yield Loss(name, seed, share, rates)


def _generator(name: str, size: int) -> Generator:
    size_of = "num_questions" if name == "few-shot" else "num_sessions"
    return GENERATORS[name](**{size_of: size})


def _requests(workload: Workload) -> Iterator[_Served]:
    generated: dict[str, dict[int, TokenArray]] = {}
    fresh = FRESH_TOKEN_BASE
    for session, number in nominal_order(workload):
        turn = session.turns[number]
        outputs = generated.setdefault(session.session_id, {})
        prompt = prompt_of(turn, outputs)
        outputs[number] = np.arange(fresh, fresh + turn.output_len, dtype=np.int32)
        fresh += turn.output_len
        yield _Served(turn.namespace, Tokens(prompt), outputs[number][:-1].tobytes())


def _hit_rate(requests: list[_Served], num_pages: int, eviction: str) -> float:
    cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=PAGE_SIZE, eviction=eviction))
    for request in requests:
        with cache.open(request.prompt, request.namespace) as seq:
            missing = seq.num_tokens - seq.matched_len
            seq.reserve(missing)
            seq.advance(missing)
            if request.answer:
                seq.append(request.answer)
                extend_len = seq.num_tokens - seq.computed_len
                seq.reserve(extend_len)
                seq.advance(extend_len)
    check(cache)
    return cache.stats.hit_rate
