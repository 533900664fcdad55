from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from radixcache import Tokens
from radixcache.agreement import AgreementIndex
from radixcache.node import Node

PAGE_SIZE = 4
first_pages = st.lists(st.integers(0, 2), min_size=PAGE_SIZE, max_size=PAGE_SIZE).map(tuple)


def child(number: int, first_page: Sequence[int]) -> Node:
    return Node(number, Tokens(first_page).data, number.to_bytes(4, "little"), 0)


def longest(index: AgreementIndex, tokens: Sequence[int]) -> tuple[int, int] | None:
    data = Tokens(tokens).data
    found = index.longest(data, 0, len(data))
    return None if found is None else (found[0].number, found[1])


def plain(pages: dict[int, Sequence[int]], tokens: Sequence[int]) -> tuple[int, int] | None:
    def agreed(page: Sequence[int]) -> int:
        count = 0
        while count < min(len(page), len(tokens)) and page[count] == tokens[count]:
            count += 1
        return count

    best = max(((agreed(page), -number) for number, page in pages.items()), default=(0, 0))
    return (-best[1], best[0]) if best[0] else None


def test_an_empty_index_finds_nothing() -> None:
    assert longest(AgreementIndex(), [1, 2]) is None


def test_a_child_that_agrees_in_no_token_is_not_found() -> None:
    index = AgreementIndex()
    index.add(child(1, [1, 2, 3, 4]))
    assert longest(index, [2, 2, 3, 4]) is None


def test_the_longest_agreement_wins() -> None:
    index = AgreementIndex()
    index.add(child(1, [1, 1, 1, 1]))
    index.add(child(2, [1, 1, 2, 2]))
    assert longest(index, [1, 1, 2, 9]) == (2, 3)


def test_among_equals_the_lowest_number_wins_whatever_came_first() -> None:
    index = AgreementIndex()
    index.add(child(5, [1, 1, 1, 1]))
    index.add(child(3, [1, 1, 2, 2]))
    assert longest(index, [1, 1, 7]) == (3, 2)


def test_nothing_behind_the_limit_is_looked_at() -> None:
    index = AgreementIndex()
    index.add(child(1, [1, 2, 3, 4]))
    data = Tokens([1, 2, 3, 4]).data
    found = index.longest(data, 0, 8)
    assert found is not None
    assert found[1] == 2
    assert index.longest(data, 0, 0) is None


def test_the_search_begins_where_it_is_told() -> None:
    index = AgreementIndex()
    index.add(child(1, [1, 2, 3, 4]))
    data = Tokens([9, 1, 2, 0]).data
    found = index.longest(data, 4, len(data))
    assert found is not None
    assert found[1] == 2


def test_a_child_taken_out_is_not_found_again() -> None:
    index = AgreementIndex()
    children = [child(number, page) for number, page in enumerate([(1, 1, 1, 1), (1, 1, 1, 2), (1, 2, 1, 1)])]
    for each in children:
        index.add(each)
    for each in children:
        index.remove(each)
    assert longest(index, [1, 1, 1, 1]) is None


@given(st.lists(first_pages, unique=True, max_size=12), st.data())
def test_agrees_with_asking_every_child(pages: list[tuple[int, ...]], data: st.DataObject) -> None:
    index = AgreementIndex()
    order = data.draw(st.permutations(range(len(pages))))
    children = {number: child(number, pages[number]) for number in order}
    for each in children.values():
        index.add(each)
    inside = dict(enumerate(pages))
    while True:
        tokens = data.draw(st.lists(st.integers(0, 2), max_size=PAGE_SIZE + 1))
        assert longest(index, tokens) == plain(inside, tokens)
        if not inside:
            return
        gone = data.draw(st.sampled_from(sorted(inside)))
        index.remove(children[gone])
        del inside[gone]
