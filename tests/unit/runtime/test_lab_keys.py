import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import InvalidConfig
from runtime.lab.keys import PageKeys
from runtime.workload import Blocks, Literal, OutputOf, Spans
from runtime.workload.model import TokenArray

token_lists = st.lists(st.integers(0, 3), max_size=12)


def ids(*values: int) -> TokenArray:
    return np.array(values, dtype=np.int32)


@given(st.integers(1, 4), st.lists(token_lists, max_size=8))
def test_keys_are_equal_exactly_where_pages_are(page_size: int, prompts: list[list[int]]) -> None:
    keys = PageKeys(page_size)
    key_of: dict[tuple[int, ...], int] = {}
    for prompt in prompts:
        found = keys.of_tokens(ids(*prompt)).tolist()
        assert len(found) == len(prompt) // page_size
        for page, key in enumerate(found):
            tokens = tuple(prompt[page * page_size : (page + 1) * page_size])
            assert key_of.setdefault(tokens, key) == key
    assert len(set(key_of.values())) == len(key_of)


@pytest.mark.parametrize("page_size", [1, 2, 4, 8])
@pytest.mark.parametrize("num_tokens", [17, 24, 23])
def test_blocks_get_the_keys_of_their_tokens(page_size: int, num_tokens: int) -> None:
    blocks = Blocks(ids(5, 0, 7), 8, num_tokens)
    keys = PageKeys(page_size)
    found = keys.of_segments((blocks,))
    assert found is not None
    assert found.dtype == np.int32
    assert found.tolist() == keys.of_tokens(blocks.tokens()).tolist()


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_spans_get_the_keys_of_their_tokens(page_size: int) -> None:
    spans = Spans(np.array([[100, 8], [40, 4], [7, 3]], dtype=np.int32), 15)
    keys = PageKeys(page_size)
    found = keys.of_segments((spans,))
    assert found is not None
    assert found.dtype == np.int32
    assert found.tolist() == keys.of_tokens(spans.tokens()).tolist()


def test_prompts_whose_boundaries_cut_pages_need_their_tokens() -> None:
    keys = PageKeys(4)
    assert keys.of_segments((Blocks(ids(1, 2), 6, 12),)) is None
    assert keys.of_segments((Spans(np.array([[0, 6], [9, 2]], dtype=np.int32), 8),)) is None
    assert keys.of_segments((Literal(ids(1, 2, 3, 4)),)) is None
    assert keys.of_segments((Blocks(ids(1), 4, 4), OutputOf(0))) is None


def test_pages_unlike_any_other_are_so() -> None:
    keys = PageKeys(2)
    before = keys.of_tokens(ids(3, 1, 4, 5)).tolist()
    own = keys.unlike_any(3).tolist()
    after = keys.of_tokens(ids(9, 9)).tolist()
    assert len({*before, *own, *after}) == 6


def test_a_page_size_below_one_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="page_size is an integer >= 1, got 0"):
        PageKeys(0)
