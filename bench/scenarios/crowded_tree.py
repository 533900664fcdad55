"""A prompt to be looked up in a tree that holds any number of others."""

from itertools import cycle

import numpy as np

from bench.errors import expect
from bench.scenarios.life import serve
from bench.workloads.material import Leaves, random_ids
from radixcache import CacheConfig, PrefixCache, Tokens, check

MOST_VISITED = 1_000


class CrowdedTree:
    """One-page leaves behind a shared page, and one prompt of `num_tokens` tokens behind the same page.

    Args:
        num_leaves: Leaves.
        num_tokens: Cached tokens of the prompt, shared page included; a multiple of `page_size`.
        page_size: Tokens of a page.
        seed: For the token ids, and for which leaves are looked up.
    """

    def __init__(self, num_leaves: int, num_tokens: int, page_size: int, seed: int) -> None:
        self.num_leaves, self.num_tokens = num_leaves, num_tokens
        leaves = Leaves(page_size=page_size)
        num_pages = num_leaves + num_tokens // page_size + 1
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size))
        for number in range(num_leaves):
            serve(self.cache, Tokens(leaves.prompt(number)))
        shared = leaves.prompt(0)[:page_size]
        self.prompt = Tokens(np.concatenate([shared, random_ids(seed, num_tokens - page_size + 1)]))
        serve(self.cache, self.prompt)
        visited = np.random.default_rng(seed).permutation(num_leaves)[:MOST_VISITED]
        self._visited = [Tokens(leaves.touching_prompt(int(number))) for number in visited]
        self._turn = cycle(self._visited)

    def peek(self) -> object:
        """Look the prompt up."""
        return self.cache.peek(self.prompt)

    def peek_elsewhere(self) -> object:
        """Look up a leaf, each time another one, in random order."""
        return self.cache.peek(next(self._turn))

    def open_and_close(self) -> None:
        """Hold the prompt and let it go. Nothing is computed, so nothing is published."""
        self.cache.open(self.prompt).close()

    def verify(self) -> None:
        """The prompt and the leaves to be visited are found whole.

        Raises:
            WrongResult: Not so.
        """
        page_size = self.cache.config.page_size
        expect("matched tokens", self.cache.peek(self.prompt).matched_len, self.num_tokens)
        found = {self.cache.peek(prompt).matched_len for prompt in self._visited}
        expect("matched tokens of leaves", found, {2 * page_size})
        expect("nodes", self.cache.stats.num_nodes, self.num_leaves + 2)
        expect("locked pages at rest", self.cache.pages.locked, 0)
        check(self.cache)
