"""Many evictable leaves; one goes, one comes."""

from collections import deque
from functools import partial

import numpy as np

from bench.errors import expect
from bench.harness.timing import Stopwatch
from bench.scenarios.life import serve
from bench.workloads.material import Leaves
from radixcache import CacheConfig, PrefixCache, Tokens, check


class LeafChurn:
    """A pool full of one-page leaves behind one shared page, in the default eviction order.

    Two pages stay free, so that a touch, which needs a page for its last token, evicts nothing.

    Args:
        num_leaves: Evictable leaves.
        page_size: Tokens of a page.
        seed: For the order of touches.
    """

    def __init__(self, num_leaves: int, page_size: int, seed: int) -> None:
        self.num_leaves = num_leaves
        self._leaves = Leaves(page_size=page_size)
        self._rng = np.random.default_rng(seed)
        self.cache = PrefixCache(CacheConfig(num_pages=num_leaves + 3, page_size=page_size))
        self._order = deque(range(num_leaves))  # leaves as an LRU should rank them, the next to go first
        self._next = num_leaves
        for number in range(num_leaves):
            serve(self.cache, Tokens(self._leaves.prompt(number)))

    def touch_all(self, *, shuffled: bool) -> None:
        """Use every leaf again, in the order it stands in or in random order."""
        numbers = list(self._order)
        if shuffled:
            numbers = self._rng.permutation(numbers).tolist()
        for number in numbers:
            serve(self.cache, Tokens(self._leaves.touching_prompt(number)))
        self._order = deque(numbers)

    def evict_one(self) -> None:
        """One page goes."""
        self.cache.evict(1)

    def next_leaf(self) -> Tokens:
        """The prompt of a leaf that was never cached. The caller serves it."""
        self._order.popleft()
        self._order.append(self._next)
        prompt = Tokens(self._leaves.prompt(self._next))
        self._next += 1
        return prompt

    def churn(self, times: int, evictions: Stopwatch, insertions: Stopwatch) -> None:
        """Evict a page and insert a leaf, so many times, each timed on its own."""
        cache = self.cache
        for _ in range(times):
            evictions.time(self.evict_one)
            prompt = self.next_leaf()
            insertions.time(partial(serve, cache, prompt))

    def evict_in_a_row(self, times: int, evictions: Stopwatch) -> None:
        """Evict so many pages by single calls, timed together; then insert as many leaves."""
        evictions.time(self.evict_one, times)
        for _ in range(times):
            serve(self.cache, self.next_leaf())

    def verify(self) -> None:
        """Exactly the leaves are cached that an LRU would keep.

        Raises:
            WrongResult: Not so.
        """
        for number in [*self._order, self._next]:
            found = self.cache.peek(Tokens(self._leaves.touching_prompt(number))).matched_len
            expected = self.cache.config.page_size * (1 + (number != self._next))
            expect(f"matched tokens of leaf {number}", found, expected)
        expect("leaves and the shared page", self.cache.pages.evictable, self.num_leaves + 1)
        check(self.cache)
