import numpy as np
import pytest

from radixcache.eviction.share import CappedShare
from radixcache.node import Node, Root


def below(parent: Node, number: int, num_pages: int) -> Node:
    node = Node(number, bytes(4 * num_pages), np.zeros(num_pages, dtype="<i4").tobytes(), parent.end)
    node.parent = parent
    return node


@pytest.fixture
def root() -> Root:
    return Root(0, None, b"n0:")


def test_protecting_a_node_protects_all_above_it(root: Root) -> None:
    share = CappedShare(10, lowest_rank=0)
    top = below(root, 1, 2)
    end = below(top, 2, 3)
    share.add(end, rank=7)
    assert top in share
    assert root not in share
    assert (share.num_pages, share.rank(end), share.is_end(end), share.is_end(top)) == (5, 7, True, False)


def test_adding_again_changes_the_rank_only(root: Root) -> None:
    share = CappedShare(10, lowest_rank=0)
    node = below(root, 1, 2)
    share.add(node, rank=1)
    share.add(node, rank=5)
    assert (share.num_pages, share.rank(node)) == (2, 5)


def test_past_the_limit_the_lowest_ends_leave_and_parents_inherit(root: Root) -> None:
    share = CappedShare(3, lowest_rank=0)
    top = below(root, 1, 2)
    old, young = below(top, 2, 1), below(top, 3, 1)
    share.add(old, rank=4)
    share.add(young, rank=6)
    assert list(share.overflow()) == [old]
    assert (share.num_pages, share.rank(top), share.is_end(top)) == (3, 4, False)
    assert list(share.overflow()) == []


def test_parents_leave_after_their_children(root: Root) -> None:
    share = CappedShare(0, lowest_rank=0)
    top = below(root, 1, 1)
    share.add(below(top, 2, 1), rank=4)
    assert [node.number for node in share.overflow()] == [2, 1]
    assert share.num_pages == 0


def test_discarding_a_stranger_does_nothing(root: Root) -> None:
    share = CappedShare(3, lowest_rank=0)
    share.discard(below(root, 1, 1))
    assert share.num_pages == 0


def test_both_halves_of_a_split_are_members(root: Root) -> None:
    share = CappedShare(9, lowest_rank=0)
    lower = below(root, 1, 4)
    share.add(lower, rank=4)
    upper = below(root, 2, 1)
    lower.parent, lower.num_pages = upper, 3
    share.split(upper, lower)
    assert (upper in share, share.is_end(upper), share.num_pages) == (True, False, 4)
    share.discard(lower)
    assert (share.rank(upper), share.is_end(upper), share.num_pages) == (4, True, 1)


def test_a_split_of_a_stranger_makes_no_member(root: Root) -> None:
    share = CappedShare(9, lowest_rank=0)
    lower, upper = below(root, 1, 4), below(root, 2, 1)
    share.split(upper, lower)
    assert upper not in share


def test_merging_and_trimming_keep_the_count(root: Root) -> None:
    share = CappedShare(9, lowest_rank=0)
    top = below(root, 1, 2)
    end = below(top, 2, 3)
    share.add(end, rank=4)
    share.merge(top, end)
    end.num_pages = 5
    assert (top in share, share.num_pages) == (False, 5)
    share.trim(end, 2)
    end.num_pages = 3
    assert share.num_pages == 3
    share.discard(end)
    assert share.num_pages == 0
