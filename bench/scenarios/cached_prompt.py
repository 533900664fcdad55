"""A long prompt that is cached whole, to be looked up again."""

from bench.errors import expect
from bench.scenarios.life import serve
from bench.workloads.material import random_ids
from radixcache import CacheConfig, PrefixCache, Tokens, check


class CachedPrompt:
    """One cached prompt of `num_tokens` tokens and one token of its own behind.

    Args:
        num_tokens: Cached tokens, a multiple of `page_size`.
        page_size: Tokens of a page.
        seed: For the token ids.
    """

    def __init__(self, num_tokens: int, page_size: int, seed: int) -> None:
        self.num_tokens = num_tokens
        self.cache = PrefixCache(CacheConfig(num_pages=num_tokens // page_size + 1, page_size=page_size))
        self.prompt = Tokens(random_ids(seed, num_tokens + 1))
        serve(self.cache, self.prompt)
        self._one = self.prompt[:-1].data
        self._other = Tokens(self.prompt[:-1].numpy().copy()).data

    def peek(self) -> object:
        """The lookup."""
        return self.cache.peek(self.prompt)

    def open_and_close(self) -> None:
        """Open, page table, close. Nothing is reserved, so nothing is published."""
        seq = self.cache.open(self.prompt)
        _ = seq.page_table
        seq.close()

    def compare(self) -> bool:
        """The bound: the same bytes, from two buffers, with `==`."""
        return self._one == self._other

    def verify(self) -> None:
        """The whole prompt is found, and two different buffers were compared.

        Raises:
            WrongResult: Not so.
        """
        expect("matched tokens", self.cache.peek(self.prompt).matched_len, self.num_tokens)
        expect("buffers are equal", self.compare(), wanted=True)
        expect("buffers are one", self._one is self._other, wanted=False)
        check(self.cache)
