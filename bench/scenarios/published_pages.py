"""Sequences that reserve, write and publish so many pages, each with content that nobody has."""

from functools import partial

import numpy as np

from bench.errors import expect
from bench.harness.timing import Stopwatch
from bench.scenarios.life import serve
from bench.workloads.material import VOCABULARY, Leaves, random_ids
from radixcache import CacheConfig, PrefixCache, Tokens, check
from radixcache.allocator import PageArray


class PublishedPages:
    """Pages published in one go behind a shared page, where `num_leaves` other one-page leaves hang.

    The pool holds what all rounds publish, so that nothing is evicted.

    Args:
        num_pages: Pages to publish in a round.
        num_leaves: Leaves that are there already, at least one.
        num_rounds: Rounds at most.
        page_size: Tokens of a page.
        seed: For the token ids.
    """

    def __init__(self, num_pages: int, num_leaves: int, num_rounds: int, page_size: int, seed: int) -> None:
        self.num_pages, self.num_leaves = num_pages, num_leaves
        self._num_done = 0
        total = num_leaves + 2 + num_rounds * num_pages
        self.cache = PrefixCache(CacheConfig(num_pages=total, page_size=page_size))
        leaves = Leaves(page_size=page_size)
        for number in range(num_leaves):
            serve(self.cache, Tokens(leaves.prompt(number)))
        shared = leaves.prompt(0)[:page_size]
        self._tokens = memoryview(bytearray(4 * num_pages * page_size))
        self._pages = np.empty(num_pages, dtype=np.int32)
        self._ids = np.concatenate([shared, random_ids(seed, num_pages * page_size + 1)])

    def _prompt(self, number: int) -> Tokens:
        """The shared page, pages of its own, and one token; the first id of its own is the number's."""
        ids = self._ids.copy()
        ids[self.cache.config.page_size] = VOCABULARY + self.num_leaves + number
        return Tokens(ids)

    def publish(self, reserving: Stopwatch, publishing: Stopwatch, copying: Stopwatch) -> None:
        """One round: time reserving, then advancing with publishing, then copying as much.

        Raises:
            WrongResult: Not all pages became visible.
        """
        prompt = self._prompt(self._num_done)
        self._num_done += 1
        page_size = self.cache.config.page_size
        num_tokens = self.num_pages * page_size
        seq = self.cache.open(prompt)

        def advance_and_publish() -> None:
            seq.advance(num_tokens)
            seq.publish()

        reserving.time(partial(seq.reserve, num_tokens))
        publishing.time(advance_and_publish)
        copying.time(partial(self._copy, prompt.data, seq.page_table))
        expect("published tokens", seq.published_len, page_size + num_tokens)
        seq.abort()

    def _copy(self, data: bytes, page_table: PageArray) -> None:
        """The bound: tokens and page ids, into memory that is there already."""
        start = 4 * self.cache.config.page_size
        self._tokens[:] = memoryview(data)[start : start + len(self._tokens)]
        self._pages[:] = page_table[1:]

    def verify(self) -> None:
        """Everything that was published is found, and nothing was evicted.

        Raises:
            WrongResult: Not so.
        """
        page_size = self.cache.config.page_size
        for number in range(self._num_done):
            found = self.cache.peek(self._prompt(number)).matched_len
            expect(f"matched tokens of round {number}", found, (1 + self.num_pages) * page_size)
        cached = 1 + self.num_leaves + self._num_done * self.num_pages
        expect("cached pages", self.cache.pages.evictable, cached)
        check(self.cache)
