"""Prompts of the micro benchmarks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]

VOCABULARY = 128_000


def random_ids(seed: int, num_tokens: int) -> Ids:
    """Token ids of an ordinary vocabulary, int32 of shape [num_tokens]."""
    return np.random.default_rng(seed).integers(0, VOCABULARY, num_tokens, dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepPath:
    """A path that no cache can store in fewer than `num_nodes` nodes: something branches off behind each.

    Attributes:
        num_nodes: Nodes on the path, one page each.
        page_size: Tokens of a page.
        seed: For the token ids.
    """

    num_nodes: int
    page_size: int
    seed: int

    @property
    def path(self) -> Ids:
        """All tokens of the path."""
        return random_ids(self.seed, self.num_nodes * self.page_size)

    @property
    def prompt(self) -> Ids:
        """The path and one token of its own, so that the whole path can match."""
        return np.append(self.path, np.int32(VOCABULARY))

    def branches(self) -> Iterator[Ids]:
        """Prompts that leave the path behind each of its nodes but the last, with one page of their own."""
        path = self.path
        for node in range(1, self.num_nodes):
            own = np.full(self.page_size, VOCABULARY + node, dtype=np.int32)
            yield np.concatenate([path[: node * self.page_size], own])


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """Any number of one-page leaves behind one shared page.

    Attributes:
        page_size: Tokens of a page.
    """

    page_size: int

    def prompt(self, number: int) -> Ids:
        """The shared page and the page of leaf `number`."""
        shared = np.arange(self.page_size, dtype=np.int32)
        return np.concatenate([shared, np.full(self.page_size, VOCABULARY + number, dtype=np.int32)])

    def touching_prompt(self, number: int) -> Ids:
        """The same and one token more, so that the leaf matches."""
        return np.append(self.prompt(number), np.int32(0))
