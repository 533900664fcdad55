"""One number for each page of a prompt, equal exactly where the tokens are equal.

A page of consecutive ids is known by its first id, any other page by a negative number that is given out
at first sight. Recorded traces consist of the first kind, so their prompts are never expanded. It must
not know sessions, requests or caches.
"""

import numpy as np

from radixcache.errors import InvalidConfig
from runtime.workload.model import Blocks, OutputOf, Segment, Spans, TokenArray


class PageKeys:
    """Keys of pages, int32, for one page size.

    Args:
        page_size: Tokens a page, >= 1.

    Raises:
        InvalidConfig: `page_size` is below 1.
    """

    def __init__(self, page_size: int) -> None:
        if page_size < 1:
            raise InvalidConfig(f"page_size is an integer >= 1, got {page_size}")
        self._page_size = page_size
        self._numbers: dict[bytes, int] = {}
        self._next = -1

    def of_tokens(self, tokens: TokenArray) -> TokenArray:
        """Keys of the full pages of `tokens`.

        Args:
            tokens: `[num_tokens], int32`, ids >= 0.

        Returns:
            `[num_tokens // page_size], int32`.

        Complexity:
            O(num_tokens) in NumPy, and one dictionary step for each page that is not consecutive.

        Example:
            >>> PageKeys(2).of_tokens(np.array([4, 5, 5, 4, 4, 5, 5, 4, 9], dtype=np.int32)).tolist()
            [4, -1, 4, -1]
        """
        size = self._page_size
        pages = tokens[: len(tokens) // size * size].reshape(-1, size)
        keys = pages[:, 0].copy()
        others = np.flatnonzero((np.diff(pages, axis=1) != 1).any(axis=1))
        if len(others):
            keys[others] = self._numbered(pages[others].tobytes())
        return keys

    def of_segments(self, segments: tuple[Segment | OutputOf, ...]) -> TokenArray | None:
        """Keys of the full pages of a prompt, without its tokens, where that can be done.

        Returns:
            As `of_tokens`; `None` unless the prompt is one run of blocks or spans whose boundaries,
            the last one aside, are boundaries of pages, too.

        Complexity:
            O(pages) in NumPy.
        """
        if len(segments) != 1:
            return None
        segment, size = segments[0], self._page_size
        if isinstance(segment, Blocks) and segment.block_size % size == 0:
            starts = segment.block_ids.astype(np.int32, copy=False) * np.int32(segment.block_size)
            keys = np.add.outer(starts, np.arange(0, segment.block_size, size, dtype=np.int32))
            blocks: TokenArray = keys.ravel()[: segment.num_tokens // size]
            return blocks
        if isinstance(segment, Spans) and not (segment.spans[:-1, 1] % size).any():
            num_pages = segment.spans[:, 1] // size
            before = np.cumsum(num_pages) - num_pages
            first = np.repeat(segment.spans[:, 0] - before * size, num_pages)
            spans: TokenArray = (first + np.arange(len(first)) * size).astype(np.int32)
            return spans
        return None

    def unlike_any(self, num_pages: int) -> TokenArray:
        """Keys that no other page has or will have, `[num_pages], int32`."""
        first = self._next
        self._next -= num_pages
        return np.arange(first, self._next, -1, dtype=np.int32)

    def _numbered(self, data: bytes) -> list[int]:
        numbers, width = self._numbers, 4 * self._page_size
        found = []
        for at in range(0, len(data), width):
            page = data[at : at + width]
            number = numbers.get(page)
            if number is None:
                number = numbers[page] = self._next
                self._next -= 1
            found.append(number)
        return found
