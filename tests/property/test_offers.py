import itertools

import pytest

from tests.steps import make_cache, pages_of, put

CHILDREN = [[1, 2, 3, 4], [1, 2, 5, 6], [1, 2, 3, 7], [1, 8, 8, 8]]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize(
    ("prompt", "num_tokens", "candidates"),
    [
        ([1, 2, 9, 9, 9], 2, {0, 1, 2}),
        ([1, 2, 3, 9, 9], 3, {0, 2}),
        ([1, 9], 1, {0, 1, 2, 3}),
        ([1, 9, 9], 1, {0, 1, 2, 3}),
        ([1, 2, 3, 4], 3, {0, 2}),
    ],
)
def test_of_equally_long_offers_the_node_made_first_is_taken(order, prompt, num_tokens, candidates) -> None:
    cache = make_cache(8, 4, partial_reuse=True)
    for child in order:
        put(cache, CHILDREN[child], read=False)
    offer = cache.open(prompt).partial
    oldest = next(child for child in order if child in candidates)
    assert offer.num_tokens == num_tokens
    assert [offer.source_page] == pages_of(cache, CHILDREN[oldest])


@pytest.mark.parametrize("prompt", [[1], [9, 2, 3]])
def test_nothing_is_offered_where_no_token_agrees_or_only_the_last_could(prompt) -> None:
    cache = make_cache(8, 4, partial_reuse=True)
    for child in CHILDREN:
        put(cache, child)
    assert cache.open(prompt).partial is None
