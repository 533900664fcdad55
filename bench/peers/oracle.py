"""What a replay should find, reckoned once for all contenders without any cache."""

from dataclasses import dataclass

from bench.workloads import page_lru
from bench.workloads.trace import Trace

START_REQUESTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Prompt tokens that are found in a trace.

    Attributes:
        start_requests: Requests of its start that every contender serves first, with room for all.
        start_pages: Pages that hold all of these.
        start_matched: What is found in these, whatever is evicted first.
        matched: What an exact page LRU finds in the whole trace, by tokens of capacity.
        infinite_matched: What a cache without limit finds in it.
    """

    start_requests: int
    start_pages: int
    start_matched: int
    matched: dict[int, int]
    infinite_matched: int


def reckon(trace: Trace, capacities: tuple[int, ...], page_size: int) -> Expected:
    """All of it.

    Complexity:
        O(pages of all requests) for each capacity.
    """
    start = trace.first(min(START_REQUESTS, len(trace)))
    start_tokens = int((start.prompt_lens + start.output_lens).sum())
    return Expected(
        start_requests=len(start),
        start_pages=start_tokens // page_size + len(start),
        start_matched=page_lru.infinite_matched_tokens(start, page_size=page_size),
        matched={
            capacity: page_lru.replay(
                trace, num_pages=capacity // page_size, page_size=page_size
            ).matched_tokens
            for capacity in capacities
        },
        infinite_matched=page_lru.infinite_matched_tokens(trace, page_size=page_size),
    )
