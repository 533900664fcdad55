"""A seeded multi-turn trace of the shape of the Mooncake conversation trace, where that is not at hand.

Matched by fit: share of requests that continue an earlier conversation (a good third), requests
between two turns (median 422), prompt and output lengths (means near 12 k and 340 tokens), one block that all
share, and 37 to 40 % of all tokens seen before. Not matched: arrival times, which a replay does not use.
"""

import numpy as np

from bench.workloads.trace import BLOCK_SIZE, Trace, make_trace

LONGEST_PROMPT = 126_195
SHORTEST_PROMPT = 891
LONGEST_OUTPUT = 2_000


def generate(num_requests: int, seed: int) -> Trace:
    """Draw a trace.

    Args:
        num_requests: Requests, >= 1.
        seed: Same seed, same trace.
    """
    rng = np.random.default_rng(seed)
    next_block = 1
    blocks: list[list[int]] = []
    prompt_lens: list[int] = []
    latest: list[int] = []  # the last turn of a request's conversation, by its first
    first: list[int] = []
    requests = []
    for number in range(num_requests):
        lag = int(rng.lognormal(np.log(422), 0.98)) + 1
        continues = rng.random() < 0.36 and lag <= number
        fresh_len = int(rng.lognormal(8.49, 1.24))
        growth = int(rng.lognormal(6.9, 1.65)) + 1
        kept: list[int] = [0]
        prompt_len = fresh_len
        if continues:
            conversation = first[number - lag]
            last = latest[conversation]
            kept = blocks[last][: prompt_lens[last] // BLOCK_SIZE] or [0]
            prompt_len = len(kept) * BLOCK_SIZE + growth
        prompt_len = min(max(prompt_len, SHORTEST_PROMPT), LONGEST_PROMPT)
        num_blocks = -(-prompt_len // BLOCK_SIZE)
        own = max(0, num_blocks - len(kept))
        blocks.append([*kept[:num_blocks], *range(next_block, next_block + own)])
        next_block += own
        prompt_lens.append(prompt_len)
        first.append(first[number - lag] if continues else number)
        latest.append(number)
        latest[first[number]] = number
        output_len = min(max(int(rng.lognormal(5.43, 0.95)), 1), LONGEST_OUTPUT)
        requests.append((blocks[number], prompt_len, output_len))
    return make_trace(f"generated multi-turn, {num_requests} requests, seed {seed}", requests)
