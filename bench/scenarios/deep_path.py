"""A path of many nodes, opened and closed by one sequence."""

import numpy as np

from bench.errors import expect
from bench.scenarios.life import serve
from bench.workloads import material
from radixcache import CacheConfig, PrefixCache, Tokens, check


class DeepPath:
    """A cached path with a branch behind each of its nodes, so that it stays so many nodes.

    Args:
        num_nodes: Nodes on the path, one page each.
        page_size: Tokens of a page.
        seed: For the token ids.
    """

    def __init__(self, num_nodes: int, page_size: int, seed: int) -> None:
        self.num_nodes = num_nodes
        source = material.DeepPath(num_nodes=num_nodes, page_size=page_size, seed=seed)
        self.cache = PrefixCache(CacheConfig(num_pages=2 * num_nodes + 2, page_size=page_size))
        self.prompt = Tokens(source.prompt)
        serve(self.cache, self.prompt)
        for branch in source.branches():
            serve(self.cache, Tokens(branch))
        page_bytes = 4 * page_size
        self._edges = [
            bytes(bytearray(self.prompt.data[at : at + page_bytes]))
            for at in range(0, num_nodes * page_bytes, page_bytes)
        ]

    def open_and_close(self) -> None:
        """What the issue bounds: open, page table, close. Nothing is reserved, so nothing is published."""
        seq = self.cache.open(self.prompt)
        _ = seq.page_table
        seq.close()

    def open_and_abort(self) -> None:
        """The same, ended by `abort`."""
        seq = self.cache.open(self.prompt)
        _ = seq.page_table
        seq.abort()

    def peek(self) -> object:
        """The walk alone."""
        return self.cache.peek(self.prompt)

    def compare_edges(self) -> bool:
        """The bound: a Python loop that compares as many edges with `startswith` and does nothing else."""
        data, at = self.prompt.data, 0
        for edge in self._edges:
            if not data.startswith(edge, at):
                return False
            at += len(edge)
        return True

    def verify(self) -> None:
        """The path is found whole, still has its nodes, and the page table agrees with `peek`.

        Raises:
            WrongResult: Not so.
        """
        match = self.cache.peek(self.prompt)
        with self.cache.open(self.prompt) as seq:
            expect("matched tokens", seq.matched_len, self.num_nodes * self.cache.config.page_size)
            expect("page table", np.array_equal(seq.page_table, match.pages), wanted=True)
        expect("nodes of path and branches", self.cache.stats.num_nodes, 2 * self.num_nodes - 1)
        expect("locked pages at rest", self.cache.pages.locked, 0)
        expect("edges are equal", self.compare_edges(), wanted=True)
        check(self.cache)
