"""Which pages are empty. Knows nothing of tokens, trees or sequences."""

import numpy as np
import numpy.typing as npt

from radixcache.errors import DoubleFree

PageArray = npt.NDArray[np.int32]

_FEW = 4  # pages up to which a Python loop beats NumPy's fixed cost


class PageAllocator:
    """A stack of empty pages: the page given back last is handed out first.

    Args:
        num_pages: Pages in the pool.
        first_page: Id of the first; ids run to `first_page + num_pages - 1`.

    Complexity:
        `alloc` and `free` of k pages: O(k) at memcpy speed. 5 bytes a page.
    """

    def __init__(self, num_pages: int, first_page: int = 0) -> None:
        self.num_pages = num_pages
        self.first_page = first_page
        last_page = first_page + num_pages - 1
        self._stack: PageArray = np.arange(last_page, first_page - 1, -1, dtype=np.int32)
        self._num_free = num_pages
        self._flags = bytearray(b"\x01") * num_pages  # one scalar is read and written faster than NumPy's
        self._is_free = np.frombuffer(self._flags, dtype=np.bool_)

    @property
    def num_free(self) -> int:
        """Empty pages."""
        return self._num_free

    def alloc(self, num_pages: int) -> PageArray:
        """Hand out `num_pages` pages, which the caller owns from now on. At most `num_free`.

        Returns:
            Page ids, int32 of shape [num_pages], a copy.
        """
        assert 0 <= num_pages <= self._num_free
        start = self._num_free - num_pages
        pages = self._stack[start : self._num_free][::-1].copy()
        self._num_free = start
        self._is_free[pages - self.first_page] = False
        return pages

    def free(self, pages: PageArray) -> None:
        """Take pages back.

        Args:
            pages: Page ids, int32 of shape [n], each owned by the caller.

        Raises:
            DoubleFree: A page is free already, is named twice, or lies outside the pool. Nothing was freed.
        """
        count = len(pages)
        if count <= _FEW:
            self._free_few(pages.tolist())
            return
        index = pages - self.first_page
        ordered = np.sort(index)
        if (
            ordered[0] < 0
            or ordered[-1] >= self.num_pages
            or (ordered[1:] == ordered[:-1]).any()
            or self._is_free[index].any()
        ):
            self._refuse(pages.tolist())
        self._is_free[index] = True
        self._stack[self._num_free : self._num_free + count] = pages
        self._num_free += count

    def free_one(self, page: int) -> None:
        """As `free`, for one page."""
        index = page - self.first_page
        if not 0 <= index < self.num_pages or self._flags[index]:
            self._refuse([page])
        self._flags[index] = 1
        self._stack[self._num_free] = page
        self._num_free += 1

    def _free_few(self, pages: list[int]) -> None:
        for position, page in enumerate(pages):
            index = page - self.first_page
            if not 0 <= index < self.num_pages or self._flags[index] or page in pages[:position]:
                self._refuse(pages)
        for page in pages:
            self.free_one(page)

    def _refuse(self, pages: list[int]) -> None:
        seen = set()
        for page in pages:
            index = page - self.first_page
            if not 0 <= index < self.num_pages:
                last_page = self.first_page + self.num_pages - 1
                raise DoubleFree(
                    f"page {page} is not of this pool, whose pages are {self.first_page} to {last_page}"
                )
            if self._is_free[index]:
                raise DoubleFree(f"page {page} is free already")
            if page in seen:
                raise DoubleFree(f"page {page} is given back twice in one call")
            seen.add(page)

    def free_pages(self) -> PageArray:
        """A copy of the stack of empty pages; the one handed out next comes last."""
        return self._stack[: self._num_free].copy()
