import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import RequestState
from scheduler.admission import OutputLengths, peak_pages
from tests.unit.scheduler.loop import Loop, ids, shape


def expected_by_hand(recent: list[int], generated: int, limit: int) -> int:
    longer = [length for length in recent if length > generated]
    target = min(-(-sum(longer) // len(longer)), limit) if longer else limit
    return max(0, target - generated)


def peak_by_hand(own: list[int], remaining: list[int], page_size: int) -> int:
    """Generate token after token: who still has some to come holds what it had and what it has grown by."""
    return max(
        (
            sum(
                pages + -(-token // page_size)
                for pages, tokens in zip(own, remaining, strict=True)
                if tokens >= token
            )
            for token in range(max(remaining, default=0) + 1)
        ),
        default=0,
    )


@given(
    st.lists(st.integers(1, 60), max_size=30),
    st.lists(st.tuples(st.integers(0, 70), st.integers(1, 80)), min_size=1, max_size=10),
)
def test_what_is_expected_is_the_mean_of_longer_outputs_within_the_limit(recent, requests):
    lengths = OutputLengths()
    for length in recent:
        lengths.add(length)
    generated, limits = (np.array(column, dtype=np.int64) for column in zip(*requests, strict=True))
    expected = [expected_by_hand(recent, done, limit) for done, limit in requests]
    assert lengths.expect(generated, limits).tolist() == expected


def test_without_experience_the_limit_is_expected():
    assert OutputLengths().expect(np.array([0, 3]), np.array([10, 10])).tolist() == [10, 7]


def test_only_the_last_outputs_count():
    lengths = OutputLengths()
    for length in [1000] * 5 + [2] * 1024:
        lengths.add(length)
    assert lengths.expect(np.array([0]), np.array([500])).tolist() == [2]


def test_lengths_added_after_a_question_count_in_the_next():
    lengths = OutputLengths()
    lengths.add(4)
    assert lengths.expect(np.array([0]), np.array([99])).tolist() == [4]
    lengths.add(8)
    assert lengths.expect(np.array([0]), np.array([99])).tolist() == [6]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=8),
    st.sampled_from([1, 2, 4, 16]),
)
def test_the_peak_is_that_of_a_walk_token_by_token(requests, page_size):
    own, remaining = [pages for pages, _ in requests], [tokens for _, tokens in requests]
    peak = peak_pages(np.array(own, dtype=np.int64), np.array(remaining, dtype=np.int64), page_size)
    assert peak == peak_by_hand(own, remaining, page_size)


def test_nobody_needs_nothing():
    assert peak_pages(np.array([], dtype=np.int64), np.array([], dtype=np.int64), 4) == 0


def test_the_first_request_is_admitted_whatever_it_may_grow_to():
    loop = Loop(4, 4)
    loop.submit("a", ids(0, 3), 13)
    loop.submit("b", ids(50, 3), 13)
    assert shape(loop.schedule()) == [("a", 0, 3, 1)]


def test_a_second_one_waits_for_the_room_that_the_first_will_need():
    loop = Loop(8, 4)
    loop.submit("a", ids(0, 4), 17)  # 5 pages at its end
    late = loop.submit("b", ids(50, 4), 17)
    loop.step()
    assert late.state is RequestState.WAITING
    loop.run()
    assert not any(plan.preempted for plan in loop.plans)


def test_with_exactly_the_room_for_both_they_run_together():
    loop = Loop(10, 4)
    loop.submit("a", ids(0, 4), 17)
    loop.submit("b", ids(50, 4), 17)
    assert len(loop.step().rows) == 2
    loop.run()
    assert not any(plan.preempted for plan in loop.plans)


def test_one_that_ends_early_makes_room_for_one_that_grows_late():
    loop = Loop(9, 4)
    loop.submit("a", ids(0, 12), 2)  # 4 pages, soon gone
    loop.submit("b", ids(50, 4), 17)  # 5 pages at its end
    assert len(loop.step().rows) == 2


def test_most_of_a_prompt_in_the_cache_needs_room_for_the_rest_only():
    loop = Loop(16 + 1, 4)
    loop.warm(ids(0, 12 * 4))
    holder = loop.submit("holder", ids(900, 3), 2)
    loop.step()
    assert loop.cache.pages.free == 4
    request = loop.submit("a", ids(0, 16 * 4), 1)
    loop.step()
    assert request.first_scheduled_at is not None
    assert holder.num_preemptions == 0
    assert (request.matched_len, request.state) == (48, RequestState.FINISHED)


@pytest.mark.parametrize("held", ["unlocked", "locked", "half"])
def test_the_matched_prefix_is_no_room_for_what_follows(held):
    loop = Loop(13, 4)
    prefix = ids(0, 24)
    loop.warm(prefix)
    locked = {"unlocked": [900, 901], "locked": [*prefix, 900], "half": [*prefix[:12], 900]}[held]
    loop.submit("holder", locked, 5)
    loop.step()
    room = loop.cache.pages.available - (0 if held == "locked" else 3 if held == "half" else 6)
    fits, fails = 4 * room, 4 * room + 4
    late = loop.submit("late", [*prefix, *ids(500, fails)], 1)
    loop.step()
    assert late.state is RequestState.WAITING
    loop.abort("late")
    late = loop.submit("late", [*prefix, *ids(500, fits - 4)], 1)
    loop.step()
    assert late.state is RequestState.FINISHED
    loop.run()


def test_a_refused_head_changes_nothing_however_often_it_is_looked_at():
    loop = Loop(8, 4)
    prompt = ids(0, 12)
    loop.warm(prompt)
    loop.submit("holder", ids(900, 8), 13)
    loop.step()
    late = loop.submit("late", [*prompt, *ids(500, 9)], 1)
    before = (loop.cache.stats.lookups, loop.cache.stats.matched_tokens, loop.cache.stats.num_nodes)
    for _ in range(6):
        loop.step()
        assert late.state is RequestState.WAITING
        assert loop.cache.pages.locked == 2
    after = (loop.cache.stats.lookups, loop.cache.stats.matched_tokens, loop.cache.stats.num_nodes)
    assert after == before


def test_the_head_is_not_overtaken_by_one_that_would_fit():
    loop = Loop(8, 4)
    first = loop.submit("a", ids(0, 8), 9)
    big = loop.submit("big", ids(100, 28), 1)
    small = loop.submit("small", ids(200, 2), 1)
    loop.run()
    assert first.finished_at < big.first_scheduled_at <= small.first_scheduled_at
