from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import Request, RequestState
from scheduler.admission import fits, peak_pages
from scheduler.expectation import OutputLengths
from scheduler.footprints import Footprints
from tests.unit.scheduler.loop import Loop, ids, shape


def lasting(recent: list[int], generated: list[int], length: int) -> Fraction:
    """Share of outputs that get longer than `length`; those that run get longer than they are."""
    share = Fraction(1)
    for token in range(length + 1):
        known = sum(each >= token for each in [*recent, *generated])
        if known:
            share *= 1 - Fraction(recent.count(token), known)
    return share


def expected_by_hand(recent: list[int], generated: list[int], done: int, limit: int, share: float) -> int:
    left = lasting(recent, generated, done) * (1 - Fraction(share))
    longer = (each for each in sorted(recent) if each > done and lasting(recent, generated, each) <= left)
    return max(0, min(next(longer, limit), limit) - done)


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


def expect(recent: list[int], requests: list[tuple[int, int, float]]) -> list[int]:
    lengths = OutputLengths()
    for length in recent:
        lengths.add(length)
    generated, limits, shares = zip(*requests, strict=True)
    return lengths.expect(np.array(generated), np.array(limits), np.array(shares)).tolist()


@given(
    st.lists(st.integers(1, 20), max_size=12),
    st.lists(
        st.tuples(st.integers(0, 24), st.integers(1, 30), st.sampled_from([0.0123, 0.271, 0.577, 0.9191])),
        min_size=1,
        max_size=6,
    ),
)
def test_a_share_of_the_longer_outputs_ends_before_the_one_expected(recent, requests):
    generated = [done for done, _, _ in requests]
    by_hand = [expected_by_hand(recent, generated, *request) for request in requests]
    assert expect(recent, requests) == by_hand


def test_without_experience_the_limit_is_expected():
    assert expect([], [(0, 10, 0.5), (3, 10, 0.5)]) == [10, 7]


def test_beyond_the_longest_known_output_the_limit_is_expected():
    assert expect([4, 8], [(8, 99, 0.5)]) == [91]


def test_shares_cover_the_outputs_evenly():
    shares = [0.1, 0.3, 0.5, 0.7, 0.9]
    assert expect([10, 20, 30, 40, 50], [(0, 99, share) for share in shares]) == [10, 20, 30, 40, 50]


def test_those_that_run_on_speak_against_those_that_ended_early():
    first_to_finish = [5]
    running = [(6, 100, 0.5)] * 9
    assert expect(first_to_finish, [(0, 100, 0.5), *running])[0] == 100


def test_only_the_last_outputs_count():
    assert expect([1000] * 5 + [2] * 1024, [(0, 500, 0.5)]) == [2]


def test_lengths_added_after_a_question_count_in_the_next():
    lengths = OutputLengths()
    for length in (4, 8):
        lengths.add(length)
        remaining = lengths.expect(np.array([0]), np.array([99]), np.array([0.9]))
        assert remaining.tolist() == [length]


def test_one_request_is_expected_to_be_long_and_many_to_be_as_outputs_are():
    lengths = OutputLengths()
    for length in range(1, 1001):
        lengths.add(length)
    requests = [Request.of(f"r{number}", [1], 5000) for number in range(900)]
    for number, request in enumerate(requests):
        request.number = number
    assert lengths.remaining(Footprints.of(requests[:1]), 0)[0] >= 999
    of_four = lengths.remaining(Footprints.of(requests[:4]), 0)
    assert of_four.min() >= 500
    assert abs(lengths.remaining(Footprints.of(requests), 0).mean() - 500) < 40


def test_a_request_without_a_limit_is_expected_to_fill_what_there_is():
    assert OutputLengths().remaining(Footprints.of([Request.of("a", [1], None)]), 640).tolist() == [640]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=8),
    st.sampled_from([1, 2, 4, 16]),
)
def test_the_peak_is_that_of_a_walk_token_by_token(requests, page_size):
    own, remaining = [pages for pages, _ in requests], [tokens for _, tokens in requests]
    peak = peak_pages(np.array(own, dtype=np.int64), np.array(remaining, dtype=np.int64), page_size)
    assert peak == peak_by_hand(own, remaining, page_size)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=6), st.integers(0, 40)
)
def test_a_request_fits_if_and_only_if_the_peak_does(requests, available):
    waiting = [
        Request.of(f"r{number}", range(known), limit) for number, (known, limit) in enumerate(requests)
    ]
    own, growth = [-(-known // 4) for known, _ in requests], [limit - 1 for _, limit in requests]
    fitting = fits(
        Footprints.of(waiting), available=available, num_pages=1000, page_size=4, lengths=OutputLengths()
    )
    assert fitting is (peak_by_hand(own, growth, 4) <= available)


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
