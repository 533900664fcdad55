from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import RadixCacheError
from radixcache.allocator import PageAllocator
from radixcache.errors import DoubleFree

FEW_AND_MANY = pytest.mark.parametrize("extra", [0, 10], ids=["few", "many"])
"""`alloc` and `free` have one path for up to eight pages and one for more."""


def ids(*pages: int) -> "array[int]":
    return array("i", pages)


def test_pages_run_from_the_first_page_on() -> None:
    allocator = PageAllocator(3, first_page=5)
    assert allocator.alloc(3).tolist() == [5, 6, 7]
    assert allocator.num_free == 0


def test_what_was_given_back_last_is_handed_out_first() -> None:
    allocator = PageAllocator(6)
    allocator.alloc(6)
    allocator.free(ids(4, 0))
    allocator.free(ids(3))
    assert allocator.alloc(3).tolist() == [3, 0, 4]


def test_handed_out_pages_are_a_copy() -> None:
    allocator = PageAllocator(2)
    allocator.alloc(1)[0] = 77
    assert allocator.free_pages().tolist() == [1]


def test_handing_out_and_taking_back_nothing_changes_nothing() -> None:
    allocator = PageAllocator(2)
    assert allocator.alloc(0).tolist() == []
    allocator.free(ids())
    assert allocator.num_free == 2


@FEW_AND_MANY
def test_page_ids_are_int32(extra: int) -> None:
    pages = PageAllocator(12).alloc(2 + extra)
    assert np.frombuffer(pages, np.int32).tolist() == list(range(2 + extra))


@FEW_AND_MANY
@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ((0, 0), "page 0 is given back twice in one call"),
        ((0, 20), "page 20 is free already"),
        ((0, 40), "page 40 is not of this pool, whose pages are 0 to 29"),
        ((0, -1), "page -1 is not of this pool"),
    ],
    ids=["twice", "free", "foreign", "negative"],
)
def test_a_page_that_is_not_the_callers_is_refused_and_nothing_is_freed(
    extra: int, pages: tuple[int, ...], message: str
) -> None:
    allocator = PageAllocator(30)
    allocator.alloc(15)
    before = allocator.free_pages().tolist()
    with pytest.raises(DoubleFree, match=message):
        allocator.free(ids(*range(1, extra + 1), *pages))
    assert allocator.free_pages().tolist() == before
    allocator.free(ids(*range(15)))
    assert allocator.num_free == 30


@FEW_AND_MANY
def test_pages_below_the_first_page_are_foreign(extra: int) -> None:
    allocator = PageAllocator(20, first_page=3)
    pages = allocator.alloc(extra + 1)
    with pytest.raises(DoubleFree, match="page 2 is not of this pool, whose pages are 3 to 22"):
        allocator.free(pages + ids(2))


def test_a_page_is_not_taken_back_twice() -> None:
    allocator = PageAllocator(2)
    page = allocator.alloc(1)
    allocator.free(page)
    with pytest.raises(DoubleFree, match="free already"):
        allocator.free(page)
    assert allocator.num_free == 2


def test_the_error_is_ours_and_a_value_error() -> None:
    assert issubclass(DoubleFree, RadixCacheError)
    assert issubclass(DoubleFree, ValueError)


@given(st.data())
def test_any_calls_hand_out_each_page_once(data: st.DataObject) -> None:
    first_page, num_pages = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 12))
    allocator = PageAllocator(num_pages, first_page)
    stack = list(reversed(range(first_page, first_page + num_pages)))
    mine: list[int] = []
    for _ in range(data.draw(st.integers(0, 20))):
        if data.draw(st.booleans()):
            count = data.draw(st.integers(0, len(stack)))
            got = allocator.alloc(count).tolist()
            assert got == [stack.pop() for _ in range(count)]
            mine += got
        else:
            back = data.draw(st.permutations(mine))[: data.draw(st.integers(0, len(mine)))]
            allocator.free(ids(*back))
            stack += back
            mine = [page for page in mine if page not in back]
        assert allocator.free_pages().tolist() == stack
        assert allocator.num_free == len(stack)
