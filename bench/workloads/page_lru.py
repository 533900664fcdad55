"""What an exact page-wise LRU cache does with a trace: the oracle of the replay. A dictionary, no tree.

A page is known by a number that stands for its whole prefix, so a prefix is cached exactly as far as its
pages are. Pages of one path are touched from the deepest to the first, so that children go before parents.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from bench.workloads.trace import BLOCK_SIZE, Trace


@dataclass(slots=True)
class PageLruResult:
    """What a replay should come to.

    Attributes:
        matched_tokens: Prompt tokens found, over all requests.
        evicted_pages: Pages that went.
        cached_pages: Pages cached at the end.
    """

    matched_tokens: int = 0
    evicted_pages: int = 0
    cached_pages: int = 0


def replay(trace: Trace, *, num_pages: int, page_size: int) -> PageLruResult:
    """Serve the requests one after the other: match, make room, publish prompt and output at the end.

    Args:
        trace: The requests.
        num_pages: Pages of the pool, at least what the longest request needs.
        page_size: Tokens of a page; divides the block size.

    Complexity:
        O(pages of all requests).
    """
    result = PageLruResult()
    cached: OrderedDict[int, None] = OrderedDict()
    fresh = -1
    for request in range(len(trace)):
        prompt_len = int(trace.prompt_lens[request])
        total_len = prompt_len + int(trace.output_lens[request])
        path = list(_prompt_pages(trace, request, page_size))
        usable = path[: (prompt_len - 1) // page_size]
        hits = list(takewhile(cached.__contains__, usable))
        result.matched_tokens += len(hits) * page_size
        _touch(cached, hits)
        num_new = -(-total_len // page_size) - len(hits)
        while len(cached) + num_new > num_pages:
            cached.popitem(last=False)
            result.evicted_pages += 1
        num_outputs = total_len // page_size - len(path)
        path.extend(range(fresh, fresh - num_outputs, -1))
        fresh -= num_outputs
        if any(page not in cached for page in path):
            _touch(cached, path)
    result.cached_pages = len(cached)
    return result


def infinite_matched_tokens(trace: Trace, *, page_size: int) -> int:
    """Prompt tokens that a cache without limit would find: the upper bound of every hit rate."""
    longest = int((trace.prompt_lens + trace.output_lens).sum())
    return replay(trace, num_pages=longest // page_size + len(trace), page_size=page_size).matched_tokens


def _prompt_pages(trace: Trace, request: int, page_size: int) -> Iterator[int]:
    pages_per_block = BLOCK_SIZE // page_size
    num_full = int(trace.prompt_lens[request]) // page_size
    first_pages = (trace.blocks(request).astype(int) * pages_per_block).tolist()
    for position in range(num_full):
        block, offset = divmod(position, pages_per_block)
        yield first_pages[block] + offset


def _touch(cached: OrderedDict[int, None], path: list[int]) -> None:
    for page in reversed(path):
        cached[page] = None
        cached.move_to_end(page)
