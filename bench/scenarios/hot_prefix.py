"""A prefix that many live sequences share; one more comes and goes."""

import numpy as np

from bench.errors import expect
from bench.scenarios.life import serve
from bench.workloads import material
from radixcache import CacheConfig, PrefixCache, Tokens, check
from radixcache.node import Node


class HotPrefix:
    """A cached path of `depth` nodes that `num_holders` live sequences hold at its end.

    Args:
        depth: Nodes on the path, one page each.
        num_holders: Live sequences.
        page_size: Tokens of a page.
        seed: For the token ids.
    """

    def __init__(self, depth: int, num_holders: int, page_size: int, seed: int) -> None:
        self.depth = depth
        source = material.DeepPath(num_nodes=depth, page_size=page_size, seed=seed)
        self.cache = PrefixCache(CacheConfig(num_pages=2 * depth + 2, page_size=page_size))
        self.prompt = Tokens(source.prompt)
        serve(self.cache, self.prompt)
        for branch in source.branches():
            serve(self.cache, Tokens(branch))
        path = source.path
        own = [np.append(path, np.int32(material.VOCABULARY + number)) for number in range(num_holders)]
        self.holders = [self.cache.open(Tokens(ids)) for ids in own]
        self._tree = self.cache._state.tree  # the tree's own lock and unlock are what is measured
        self._node = self._deepest()

    def _deepest(self) -> Node:
        roots = self._tree.all_roots()
        return self._tree.walk(roots[0], self.prompt.data, 0, len(self.prompt.data) - 4).node

    def lock_and_unlock(self) -> None:
        """The tree's lock and unlock of the deepest node."""
        tree, node = self._tree, self._node
        tree.lock(node)
        tree.unlock(node)

    def open_and_abort(self) -> None:
        """One more sequence, by the public verbs; its walk costs O(depth), its lock does not."""
        self.cache.open(self.prompt).abort()

    def peek(self) -> object:
        """The walk alone."""
        return self.cache.peek(self.prompt)

    def verify(self) -> None:
        """All holders share the whole path, and it alone is locked.

        Raises:
            WrongResult: Not so.
        """
        page_size = self.cache.config.page_size
        expect("shared tokens", {seq.matched_len for seq in self.holders}, {self.depth * page_size})
        expect("locked pages", self.cache.pages.locked, self.depth)
        expect("live sequences", self.cache.stats.live_sequences, len(self.holders))
        check(self.cache)

    def release(self) -> None:
        """End all holders.

        Raises:
            WrongResult: Something is still locked.
        """
        for seq in self.holders:
            seq.abort()
        expect("locked pages at rest", self.cache.pages.locked, 0)
        check(self.cache)
