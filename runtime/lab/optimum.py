"""The clairvoyant optimum: what the best eviction could find, for a fixed order of requests.

Source:
    Belady, "A study of replacement algorithms for a virtual-storage computer", 1966, on prefix paths: of the
    pages that are not in use, the one that is used again last goes first, among equals the deepest. A parent
    is used again no later than its children, so the victim is always a leaf, and no policy that keeps
    prefixes whole, or does not, finds more pages (pages of one size, requests one after the other, each
    with all its pages resident while it is served).

What is exact. Pages that are computed though they are known, since they hold a prompt's last token, come free
of charge; with `PageTrace.num_unmatched` of them the true optimum may be that many pages larger. Where
it is 0 nothing beats this. Requests that run at the same time hold more pages at once than is reckoned here;
another *order* may beat it, up to the ceiling.
"""

import heapq

import numpy as np

from runtime.lab.pages import Counts, PageTrace


def optimal_hits(trace: PageTrace, capacity_tokens: int) -> Counts:
    """Pages that each request finds under clairvoyant eviction, int64, `[num_requests]`.

    Between two uses a run of pages has one next use, so the heap holds one entry a reuse. Reuses are numbered
    by request, then by depth: the number itself is the order of eviction.

    Args:
        trace: The requests.
        capacity_tokens: Capacity; what is left of a page is not used.

    Raises:
        InvalidArgument: The capacity is less than the longest request needs.

    Complexity:
        O(requests + reuses * log reuses).
    """
    capacity = trace.require_capacity(capacity_tokens)
    first, used_pages = trace.first_reuse().tolist(), trace.used_pages.tolist()
    next_uses = _next_uses(trace)
    dead_pages = _dead_pages(trace).tolist()
    size = (trace.stop - trace.start).tolist()
    kept = [0] * len(size)
    held = dead = 0
    found: list[int] = []
    heap: list[int] = []
    for number, used in enumerate(used_pages):
        hits = 0
        whole = True
        for reuse in range(first[number], first[number + 1]):
            held -= kept[reuse]
            if whole:
                hits += kept[reuse]
                whole = kept[reuse] == size[reuse]
        found.append(hits)
        room = capacity - used
        if held + dead > room:
            dead = max(0, room - held)
            excess = held - room
            while excess > 0:
                victim = -heap[0]
                gone = min(kept[victim], excess)
                kept[victim] -= gone
                held -= gone
                excess -= gone
                if not kept[victim]:
                    heapq.heappop(heap)
        for reuse in next_uses[number]:
            kept[reuse] = size[reuse]
            held += size[reuse]
            heapq.heappush(heap, -reuse)
        dead += dead_pages[number]
    return np.minimum(np.array(found, dtype=np.int64), trace.match_pages)


def optimum_tokens(trace: PageTrace, capacity_tokens: int) -> int:
    """Tokens found under clairvoyant eviction. Raises and costs as `optimal_hits`."""
    return int(optimal_hits(trace, capacity_tokens).sum()) * trace.page_size


def any_order_tokens(trace: PageTrace) -> int:
    """Tokens that no order of the same requests, no capacity and no policy can exceed.

    Every different page is computed at least once: 1 - (different pages) / (pages of all requests), with
    what is never matched left out. Pages that come free of charge (`PageTrace.num_unmatched`) are added.

    Complexity:
        O(requests).
    """
    return (trace.ceiling_pages + trace.num_unmatched) * trace.page_size


def _next_uses(trace: PageTrace) -> list[list[int]]:
    """For each request, the reuses of what it used."""
    next_uses: list[list[int]] = [[] for _ in range(len(trace))]
    for reuse, previous in enumerate(trace.previous.tolist()):
        next_uses[previous].append(reuse)
    return next_uses


def _dead_pages(trace: PageTrace) -> Counts:
    """For each request, pages that nobody uses after it."""
    used_again = np.bincount(trace.previous, weights=trace.stop - trace.start, minlength=len(trace))
    return trace.path_pages - used_again.astype(np.int64)
