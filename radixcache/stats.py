"""Counters, each counted once, and frozen snapshots of them."""

from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import NamedTuple

from radixcache.misses import MissReason


class PageCounts(NamedTuple):
    """Pages by state at one moment; the first four sum to `total`.

    Attributes:
        free: Empty.
        private: Owned by one live sequence.
        evictable: Cached, used by nobody.
        locked: Cached and in use.
        total: In the pool.
    """

    free: int
    private: int
    evictable: int
    locked: int
    total: int

    @property
    def available(self) -> int:
        """Pages a sequence could get now: free + evictable."""
        return self.free + self.evictable


@dataclass(slots=True)
class Counters:
    """What happened since the cache was made. Only grows; the cache writes it."""

    lookups: int = 0
    prompt_tokens: int = 0
    matched_tokens: int = 0
    copied_tokens: int = 0
    resumed_lookups: int = 0
    resumed_tokens: int = 0
    resumed_matched_tokens: int = 0
    published_pages: int = 0
    duplicate_pages: int = 0
    evictions: int = 0
    evicted_pages: int = 0
    failed_reserves: int = 0
    forks: int = 0
    missed_tokens: dict[MissReason, int] = field(default_factory=lambda: dict.fromkeys(MissReason, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """Counters at one moment. All token counts are of first admissions unless they say otherwise.

    Attributes:
        lookups: Sequences that looked for a prefix and got their first pages.
        prompt_tokens: Tokens of their prompts.
        matched_tokens: Tokens of their prompts that were found in whole pages.
        copied_tokens: Tokens that were taken over from the start of a page (`partial_reuse`).
        resumed_lookups: As `lookups`, after a preemption.
        resumed_tokens: As `prompt_tokens`, after a preemption.
        resumed_matched_tokens: As `matched_tokens`, after a preemption.
        published_pages: Pages that became visible.
        duplicate_pages: Pages given back because somebody else had published the same tokens first.
        evictions: Runs of pages that were evicted.
        evicted_pages: Pages that were evicted.
        failed_reserves: `reserve` and `fork` calls that ended in `OutOfPages`.
        forks: Sequences made by `fork`.
        missed_tokens: Tokens not matched, by reason; with `matched_tokens` they sum to `prompt_tokens`.
        live_sequences: Sequences that were opened and not ended.
        num_nodes: Nodes of the tree, roots not counted.
        num_namespaces: Namespaces that hold pages or sequences.
        num_ghosts: Records of evictions, at most `max_ghosts`; outdated ones that have not left yet included.
    """

    lookups: int
    prompt_tokens: int
    matched_tokens: int
    copied_tokens: int
    resumed_lookups: int
    resumed_tokens: int
    resumed_matched_tokens: int
    published_pages: int
    duplicate_pages: int
    evictions: int
    evicted_pages: int
    failed_reserves: int
    forks: int
    missed_tokens: MappingProxyType[MissReason, int]
    live_sequences: int
    num_nodes: int
    num_namespaces: int
    num_ghosts: int

    @property
    def hit_rate(self) -> float:
        """matched_tokens / prompt_tokens; 0.0 before the first lookup."""
        return self.matched_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def stats_of(
    counters: Counters, *, live_sequences: int, num_nodes: int, num_namespaces: int, num_ghosts: int
) -> CacheStats:
    """Freeze the counters together with four gauges."""
    values = {each.name: getattr(counters, each.name) for each in fields(counters)}
    values["missed_tokens"] = MappingProxyType(dict(counters.missed_tokens))
    return CacheStats(
        **values,
        live_sequences=live_sequences,
        num_nodes=num_nodes,
        num_namespaces=num_namespaces,
        num_ghosts=num_ghosts,
    )
