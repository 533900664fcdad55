import pytest

from radixcache import EVICTION_POLICIES
from tests.unit.scheduler.waiting.grove import Grove, pages


def test_a_new_request_stands_where_its_prompt_leaves_the_cache():
    grove = Grove()
    grove.cached(1, 2, 3)
    assert grove.matches(grove.add(1, 2, 3), grove.add(1, 2, 9), grove.add(9), grove.add()) == [3, 2, 0, 0]


def test_the_last_token_is_never_matched():
    grove = Grove()
    grove.cached(1, 2)
    request = grove.add(1, 2)
    assert grove.matches(request) == [2]
    assert grove.cache.peek(pages(1, 2)).matched_len == 2


def test_a_publication_moves_everybody_it_agrees_with_and_nobody_else():
    grove = Grove()
    requests = [grove.add(1, 2, 3), grove.add(1, 2, 4), grove.add(1, 9), grove.add(8)]
    grove.cached(1, 2, 3)
    assert grove.matches(*requests) == [3, 2, 1, 0]


def test_a_publication_behind_a_page_moves_only_who_stood_there():
    grove = Grove()
    first = grove.compute(1, 2)
    near, far = grove.add(1, 2, 3), grove.add(1, 4)
    first.append(pages(3))
    grove.cached(1, 2, 3)
    assert grove.matches(near, far) == [3, 1]


def test_an_eviction_moves_everybody_back_to_what_survives():
    grove = Grove()
    grove.cached(1, 2, 3, 4)
    requests = [grove.add(1, 2, 3, 4, 5), grove.add(1, 2, 3), grove.add(1, 7)]
    grove.cache.evict(2)
    assert grove.matches(*requests) == [2, 2, 1]
    grove.cache.evict(2)
    assert grove.matches(*requests) == [0, 0, 0]


@pytest.mark.parametrize("eviction", sorted(EVICTION_POLICIES))
def test_one_call_that_evicts_children_and_parents_is_followed_to_the_root(eviction):
    grove = Grove(eviction=eviction)
    for names in ((1, 2, 3), (1, 2, 4), (1, 5), (6,)):
        grove.cached(*names)
    requests = [grove.add(1, 2, 3), grove.add(1, 2, 4), grove.add(1, 5, 8), grove.add(6), grove.add(1, 2)]
    for num_pages in (1, 2, 3):
        grove.cache.evict(num_pages)
        prompts = [request.prompt for request in requests]
        peeked = [grove.cache.peek(prompt).matched_len // 2 for prompt in prompts]
        assert grove.matches(*requests) == peeked
    assert grove.matches(*requests) == [0] * 5


class OrderOfEvents:
    """Asserts that no page goes before those behind it."""

    def __init__(self) -> None:
        self.parent: dict[int, int | None] = {}
        self.num_runs = 0

    def published(self, namespace, parent_page, new_pages, tokens, depth):
        for page in new_pages.tolist():
            self.parent[page] = parent_page
            parent_page = page

    def evicted(self, namespace, pages, surviving_parent_page, depth):
        self.num_runs += 1
        for page in reversed(pages.tolist()):
            assert page not in self.parent.values()
            del self.parent[page]

    def cleared(self, namespace, *, everything):
        self.parent.clear()


def test_children_are_told_before_their_parents():
    grove = Grove()
    told = OrderOfEvents()
    grove.cache.subscribe(told)
    for names in ((1, 2, 3), (1, 2, 4), (1, 5), (6,)):
        grove.cached(*names)
    assert grove.cache.evict(7) == 6
    assert told.num_runs >= 4
    assert not told.parent


def test_page_ids_that_are_used_again_move_nobody_who_stood_there_before():
    grove = Grove(num_pages=4)
    grove.cached(1, 2, 3)
    before = grove.add(1, 2, 3)
    grove.cache.evict(3)
    grove.cached(7, 8, 9)
    after = grove.add(7, 8, 9)
    assert grove.matches(before, after) == [0, 3]
    grove.cache.evict(1)
    assert grove.matches(before, after) == [0, 2]


def test_a_prompt_that_ends_within_a_run_splits_it():
    grove = Grove()
    grove.cached(1, 2, 3)
    long, short, cold = grove.add(1, 2, 3, 4, 5), grove.add(1, 2), grove.add(1, 2, 3, 4)
    assert grove.matches(long, short, cold) == [3, 2, 3]
    grove.cache.evict(2)
    assert grove.matches(long, short, cold) == [1, 1, 1]
    grove.forest.remove(short)
    grove.forest.remove(cold)
    assert grove.matches(long) == [1]
    grove.cached(1, 2, 3, 4)
    assert grove.matches(long) == [4]


def test_another_namespace_is_another_tree():
    grove = Grove()
    requests = [grove.add(1, 2), grove.add(1, 2, namespace="b"), grove.add(1, 2, namespace=b"b")]
    grove.cached(1, 2, namespace="b")
    assert grove.matches(*requests) == [0, 2, 0]
    grove.cache.retire("b")
    assert grove.matches(*requests) == [0, 0, 0]


def test_a_request_that_reads_nothing_matches_nothing():
    grove = Grove()
    blind = grove.add(1, 2, read=False)
    grove.cached(1, 2)
    assert grove.matches(blind) == [0]
    assert grove.first() is blind


def test_a_reset_moves_everybody_to_their_roots():
    grove = Grove()
    grove.cached(1, 2, namespace="b")
    grove.cached(1, 2)
    requests = [grove.add(1, 2), grove.add(1, 3, namespace="b")]
    assert grove.matches(*requests) == [2, 1]
    grove.cache.reset()
    assert grove.matches(*requests) == [0, 0]
    grove.cached(1, 2)
    assert grove.matches(*requests) == [2, 0]


def test_a_forest_follows_the_cache_while_somebody_waits_and_no_longer():
    grove = Grove()
    state = grove.cache._state
    before = len(state.observers)
    for _ in range(2):
        page = grove.hold(1)
        requests = [grove.add(1, 2), grove.add(3)]
        assert len(state.observers) == before + 1
        assert grove.first() is requests[1]
        for request in requests:
            grove.forest.remove(request)
        assert len(state.observers) == before
        grove.forest.release(*page)
    grove.cached(1, 2)
    late = grove.add(1, 2)
    assert grove.matches(late) == [2]
