"""Blocks by their whole prefix: equal numbers exactly where everything up to the block is equal.

A prefix cache sees nothing else of a prompt, so files may number blocks by content or by prefix.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from runtime.errors import WorkloadError
from runtime.workload.model import FRESH_TOKEN_BASE, TokenArray
from runtime.workload.traces.latest import LatestPrompts

ROOT: Final = -1
"""What the first block stands behind."""


class BlockTree:
    """Numbers blocks from 0 in the order in which they are met.

    Args:
        block_size: Tokens a block.
    """

    def __init__(self, block_size: int) -> None:
        self._numbers: dict[tuple[Hashable, Hashable], int] = {}
        self._limit = FRESH_TOKEN_BASE // block_size
        self._block_size = block_size
        self._latest: LatestPrompts[TokenArray] = LatestPrompts()

    def path(self, blocks: Iterable[Hashable], parent: Hashable = ROOT) -> list[int]:
        """Numbers of blocks that follow one another, the first behind `parent`.

        Args:
            blocks: Ids of the blocks, or their content.
            parent: Number of the block before, or any other start.

        Raises:
            WorkloadError: There are more different blocks than there are token ids for.

        Example:
            >>> tree = BlockTree(16)
            >>> tree.path(["a", "b", "c"]), tree.path(["a", "c", "c"]), tree.path(["c"], parent=1)
            ([0, 1, 2], [0, 3, 4], [2])
        """
        numbers, found = self._numbers, []
        for block in blocks:
            parent = number = numbers.setdefault((parent, block), len(numbers))
            found.append(number)
        if len(numbers) > self._limit:
            raise WorkloadError(
                f"more than {self._limit} different blocks of {self._block_size} tokens: "
                "their token ids would pass 2**30"
            )
        return found

    def prompt(self, blocks: Sequence[Hashable], session: str | None = None) -> TokenArray:
        """Numbers of the blocks of a prompt, int32; quick where it goes on from the session's latest one.

        Args:
            blocks: Ids of the blocks. Remembered, not copied.
            session: Whose prompt it is.

        Raises:
            WorkloadError: See `path`.

        Complexity:
            O(blocks) comparisons, and a dictionary step for each block that is not as in the latest prompt.
        """
        known = self._latest.known(session, blocks)
        before: TokenArray = np.empty(0, dtype=np.int32) if known is None else known
        parent = int(before[-1]) if len(before) else ROOT
        added = np.array(self.path(blocks[len(before) :], parent), dtype=np.int32)
        path = np.concatenate((before, added))
        self._latest.remember(session, blocks, path)
        return path
