from hypothesis import given
from hypothesis import strategies as st

from radixcache.eviction import LRU, EvictionPolicy
from radixcache.eviction.order import EvictionOrder
from radixcache.node import Node


def node(number: int, stamp: int) -> Node:
    made = Node(number, b"", b"", 0)
    made.stamp = stamp
    return made


def test_the_lowest_rank_comes_first_and_ties_break_by_number() -> None:
    order = EvictionOrder(LRU(4))
    for number, stamp in ((3, 5), (1, 7), (2, 5)):
        order.add(node(number, stamp))
    assert [each.number for each in order.nodes()] == [2, 3, 1]
    assert order.first() is order.nodes()[0]
    assert len(order) == 3


def test_an_empty_order_has_no_first() -> None:
    assert EvictionOrder(LRU(4)).first() is None


def test_discarding_what_is_not_in_does_nothing() -> None:
    EvictionOrder(LRU(4)).discard(node(1, 1))


def test_updating_moves_what_is_in_and_nothing_else() -> None:
    order = EvictionOrder(LRU(4))
    one, two, outside = node(1, 1), node(2, 2), node(3, 0)
    order.add(one)
    order.add(two)
    one.stamp = 9
    order.update(one)
    order.update(outside)
    assert order.nodes() == [two, one]


def test_a_policy_may_ask_for_a_move() -> None:
    asked = []

    class Moody(EvictionPolicy):
        def bind(self, reorder):
            asked.append(reorder)

    order = EvictionOrder(Moody(4))
    one, two = node(1, 1), node(2, 2)
    order.add(one)
    order.add(two)
    one.stamp = 9
    asked[0](one)
    assert order.first() is two


@given(st.lists(st.tuples(st.sampled_from("adu"), st.integers(0, 5), st.integers(0, 3))))
def test_the_order_is_that_of_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    order, nodes, inside = EvictionOrder(LRU(4)), {}, set()
    for verb, number, stamp in steps:
        each = nodes.setdefault(number, node(number, stamp))
        if verb == "a" and number not in inside:
            order.add(each)
            inside.add(number)
        elif verb == "d":
            order.discard(each)
            inside.discard(number)
        elif verb == "u":
            each.stamp = stamp
            order.update(each)
        expected = sorted((nodes[number].stamp, number) for number in inside)
        assert [(each.stamp, each.number) for each in order.nodes()] == expected
