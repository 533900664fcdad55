"""Which pages are empty. Knows nothing of tokens, trees or sequences."""

from array import array
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from radixcache.errors import DoubleFree

PageArray = npt.NDArray[np.int32]
PageIds: TypeAlias = "array[int]"
"""Page ids within the package, of type code "i": a few cost less than in a NumPy array, many no more."""

FEW_PAGES = 8  # up to so many a Python loop beats NumPy's fixed cost


class PageAllocator:
    """A stack of empty pages: the page given back last is handed out first.

    Args:
        num_pages: Pages in the pool.
        first_page: Id of the first; ids run to `first_page + num_pages - 1`.

    Attributes:
        num_free: Empty pages.

    Complexity:
        `alloc` and `free` of k pages: O(k) at memcpy speed. 5 bytes a page.
    """

    def __init__(self, num_pages: int, first_page: int = 0) -> None:
        self.num_pages = num_pages
        self.first_page = first_page
        self.num_free = num_pages
        # grows downwards: the last `num_free` are the empty pages, in the order they will be handed out in
        self._stack: PageIds = array("i")
        self._stack.frombytes(np.arange(first_page, first_page + num_pages, dtype=np.int32).tobytes())
        self._stack_view = np.frombuffer(self._stack, dtype=np.int32)
        self._flags = bytearray(b"\x01") * num_pages  # one scalar is read and written faster than NumPy's
        self._is_free = np.frombuffer(self._flags, dtype=np.bool_)

    def alloc(self, num_pages: int) -> PageIds:
        """Hand out `num_pages` pages, which the caller owns from now on. At most `num_free`.

        Returns:
            Page ids, a copy.
        """
        assert 0 <= num_pages <= self.num_free
        top = self.num_pages - self.num_free
        pages = self._stack[top : top + num_pages]
        if num_pages <= FEW_PAGES:
            self._mark_out(pages)
        else:
            self._is_free[page_index(np.frombuffer(pages, dtype=np.int32), self.first_page)] = False
        self.num_free -= num_pages
        return pages

    def free(self, pages: PageIds) -> None:
        """Take pages back.

        Args:
            pages: Page ids, each owned by the caller.

        Raises:
            DoubleFree: A page is free already, is named twice, or lies outside the pool. Nothing was freed.
        """
        if len(pages) > FEW_PAGES:
            self._free_many(pages)
            return
        stack, flags, top = self._stack, self._flags, self.num_pages - self.num_free
        for position, page in enumerate(pages, 1):
            index = page - self.first_page
            if not 0 <= index < self.num_pages or flags[index]:
                self._mark_out(pages[: position - 1])
                self._refuse(pages)
            flags[index] = 1
            stack[top - position] = page
        self.num_free += len(pages)

    def free_one(self, page: int) -> None:
        """As `free`, for one page."""
        index = page - self.first_page
        if not 0 <= index < self.num_pages or self._flags[index]:
            self._refuse(array("i", [page]))
        self._flags[index] = 1
        self.num_free += 1
        self._stack[-self.num_free] = page

    def _free_many(self, pages: PageIds) -> None:
        ids = np.frombuffer(pages, dtype=np.int32)
        index = page_index(np.sort(ids), self.first_page)
        if (
            index[0] < 0
            or index[-1] >= self.num_pages
            or np.count_nonzero(index[1:] == index[:-1])
            or np.count_nonzero(self._is_free[index])
        ):
            self._refuse(pages)
        self._is_free[index] = True
        top = self.num_pages - self.num_free
        self._stack_view[top - len(ids) : top] = ids[::-1]
        self.num_free += len(ids)

    def _mark_out(self, pages: PageIds) -> None:
        for page in pages:
            self._flags[page - self.first_page] = 0

    def _refuse(self, pages: PageIds) -> None:
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
        return self._stack_view[self.num_pages - self.num_free :][::-1].copy()


def page_index(pages: PageArray, first_page: int) -> npt.NDArray[np.intp]:
    """Where pages stand in an array of one entry a page, in the type that NumPy indexes with at once.

    An int32 index is converted at every use, which takes several times as long as the use.
    """
    index = pages.astype(np.intp)
    return index - first_page if first_page else index
