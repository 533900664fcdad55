import numpy as np

from radixcache import Tokens
from radixcache.node import Node, Root


def leaf(num_pages: int, page_size: int = 2) -> Node:
    pages = np.arange(10, 10 + num_pages, dtype="<i4").tobytes()
    return Node(1, Tokens(range(num_pages * page_size)).data, pages, 3)


def test_a_node_ends_as_many_pages_deeper_as_its_edge_holds() -> None:
    node = leaf(2)
    assert (node.num_pages, node.start, node.end) == (2, 3, 5)


def test_leftovers_behind_a_cut_are_not_part_of_the_edge() -> None:
    node = leaf(3)
    node.num_pages, node.slack = 1, 2
    assert node.live_edge() == Tokens([0, 1]).data
    assert node.live_pages() == Tokens([10]).data
    assert node.last_page() == 10


def test_settling_drops_the_leftovers() -> None:
    node = leaf(3)
    node.num_pages, node.slack = 2, 1
    node.settle()
    assert (node.edge, node.pages, node.slack) == (Tokens(range(4)).data, Tokens([10, 11]).data, 0)


def test_a_node_without_leftovers_is_whole() -> None:
    node = leaf(2)
    assert node.live_edge() is node.edge
    assert node.live_pages() is node.pages
    assert node.last_page() == 11


def test_a_root_is_its_own_root_and_holds_no_page() -> None:
    root = Root(7, "name", b"s4:name")
    assert root.root is root
    assert (root.num_pages, root.end, root.retired) == (0, 0, False)
