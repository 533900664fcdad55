"""Why ours is behind a peer, or not far ahead of one in Python, and what to know of every number."""

_INT32 = (
    "a token is 4 bytes here, and 4 for each page of 16, where SGLang keeps 8 bytes of token and 8 of slot; "
    "five times less than that would be less than the tokens themselves"
)

BEHIND: dict[tuple[str, str], str] = {
    ("vLLM", "evict a page"): (
        "it has no tree to keep: free blocks are one linked list in the order they were given back, and "
        "taking one evicts it. Every lookup pays for that with a hash a block"
    ),
    ("Ray Serve", "evict a page"): (
        "it keeps text and nothing else: no pages are allocated, none is owned, locked or counted, and an "
        "eviction takes the tail of a linked list"
    ),
    ("vLLM", "make tokens of a Python list"): (
        "its own type is the list that a tokenizer returns. What ours does here once, checking and packing "
        "the ids, lets it compare memory afterwards, where vLLM hashes every block of the list in its lookup"
    ),
    ("vLLM", "make tokens of NumPy int32"): (
        "`tolist` makes one Python integer a token; ours checks the range of every id and copies"
    ),
    ("SGLang", "make tokens"): (
        "both are one pass over the integers; ours also checks that every id fits, and SGLang's `array` "
        "does in C what its engine asks for: any int64"
    ),
    ("SGLang", "scheduling pass, as shipped"): (
        "above 128 waiting requests it keeps the order of arrival and looks nobody up; ours stays exact"
    ),
    ("vLLM", "scheduling pass"): "it keeps the order of arrival, whatever is cached; ours is exact",
    ("SGLang, Python core", "growth"): _INT32,
    ("vLLM", "growth"): (
        "it keeps no tokens: a hash of 16 or 32 bytes and some Python objects for each page. Of ours, 4 "
        "bytes a token are the tokens themselves"
    ),
    ("Ray Serve", "hit rate"): (
        "outputs never enter its tree and take no room in it; an engine behind it has to keep their KV"
    ),
    ("Ray Serve", "growth"): (
        "it keeps the text of the prompts, here of 4 bytes a token, and no pages; ours keeps 4 bytes a "
        "token and a page"
    ),
    ("SGLang, Python core", "a request of the trace"): (
        "the paths of this trace are short, so that most of a request is array work in C on the pages of "
        "its own, for both; deep paths and many leaves are where the Python tree is slow"
    ),
}
"""By start of the contender's label and start of the figure's name."""

DRIVEN = (
    (
        "Each contender's code is installed from the package index and runs unmodified, on one thread, in a "
        "fresh process a repetition, driven by one adapter file (`bench/peers/*.py`) with the calls that "
        "its own engine makes. GPU and model packages that their imports name and their caches never use "
        "are empty stand-ins."
    ),
    (
        "Tokens are made in each engine's own type before anything is timed: `Tokens` (int32) for ours, "
        "`array('q')` for SGLang, a list for vLLM, text of four characters a token for Ray Serve. Making "
        "them is a row of its own."
    ),
    (
        "SGLang: `UnifiedRadixCache` with `PagedTokenToKVPoolAllocator`, by match, lock, indices of the "
        "path, alloc (and evict), insert, free_segment, unlock. 'As served' also inserts the prompt after "
        "prefill and splits the leaf at its end."
    ),
    (
        "vLLM: `Request` with its block hasher once a request, counted with the lookup, then "
        "`get_computed_blocks`, `allocate_slots`, `free`. It has no call that evicts, so eviction and "
        "insertion are one figure for all."
    ),
    (
        "Ray Serve: `prefix_match` and `insert` of the tree, called in this process and not through an "
        "actor, for one replica."
    ),
    (
        "A scheduling pass comes after one request was served and published and another one joined, over a "
        "full cache. Ours is all work of the queue for a dispatch: choosing and admitting, and following "
        "the pages that are published and evicted meanwhile. SGLang's is `SchedulePolicy.calc_priority` "
        "with lpm over real `Req` objects; in 'longest prefix first' the two functions that this calls up "
        "to 128 requests, at any length. vLLM's is `Scheduler.schedule`, with a stand-in for the "
        "configuration of a model."
    ),
    (
        "Growth of memory is over an empty cache, which leaves out what a cache allocates when it is made, "
        "or over no cache, by tokens cached at the end; the prompts are not kept. The resident set is read "
        "first, in a process that has done nothing else."
    ),
    (
        "Before a number is printed, matched lengths are compared with an oracle: of each micro row with "
        "what was cached; of the trace with a dictionary, exactly while nothing is evicted, then exactly "
        "for ours and vLLM (page-wise LRU), and with an infinite cache for those that evict otherwise. "
        "Whoever is first in a longest-prefix order has the longest match of all when everybody is looked "
        "up anew."
    ),
)

LIMITS = (
    (
        "No KV is computed, and no GPU and no engine around the cache takes part. A faster cache core makes "
        "an engine faster only where the core is what it waits for."
    ),
    "Micro rows run hot: prompt and tree lie in the processor's caches.",
    "Requests of the trace come one after the other; nothing waits, nothing is preempted.",
    (
        "Hit rates differ where policies do: SGLang evicts whole leaves, vLLM and ours single pages. Ray "
        "Serve's is that of a router that guesses what a replica holds."
    ),
    (
        "What peers can do and ours cannot (sliding windows, host and remote tiers, images in a key) costs "
        "them something here and is not counted for them."
    ),
    "A series of slow single calls ends after some seconds, with what it has (`patience_s`).",
    "Left out: LMCache and HiCache, which are other tiers.",
)


def reason(contender: str, name: str) -> str:
    """Why ours is not (far) ahead of a contender in that figure."""
    for (label, start), text in BEHIND.items():
        if contender.startswith(label) and name.startswith(start):
            return text
    return "not explained yet"
