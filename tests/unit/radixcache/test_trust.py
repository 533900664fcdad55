"""Whether a policy has earned it to be followed, on evidence made by hand."""

from itertools import pairwise

import pytest

from radixcache.eviction.trust import BUDGET, FIRST_PAUSE, TOLERANCE, WINDOW, Trust

POOL = 1000
REQUESTS = 50


def after(turnovers: int, *, found_by_lru: int = 500, gain: int = 0) -> Trust:
    """Trust after so many turnovers, in each of which LRU found as much and the policy more by `gain`."""
    trust = Trust(POOL)
    for _ in range(turnovers * REQUESTS):
        trust.admitted(POOL // REQUESTS)
        trust.used(POOL // REQUESTS, (found_by_lru + gain) // REQUESTS, found_by_lru // REQUESTS)
    return trust


def test_it_begins_with_recency_while_the_policy_learns() -> None:
    assert Trust(POOL).follows_recency
    assert after(WINDOW - 1).follows_recency
    assert not after(WINDOW).follows_recency


def test_without_evidence_only_as_much_is_exposed_as_may_be_lost() -> None:
    trust = after(10, found_by_lru=POOL)
    assert trust.allowance() == pytest.approx(10 * BUDGET * POOL)
    assert not trust.exposed(49)
    assert not trust.follows_recency
    assert trust.exposed(1)
    assert trust.follows_recency


def test_the_less_recency_finds_the_more_may_be_exposed() -> None:
    assert after(10, found_by_lru=50).allowance() > 5 * after(10, found_by_lru=950).allowance()


def test_a_request_that_could_cost_a_point_by_itself_is_not_risked() -> None:
    trust = Trust(POOL)
    for _ in range(10):
        trust.admitted(POOL // 2)
        trust.used(POOL // 2, 0, 0)
    assert trust.allowance() < 0
    assert trust.follows_recency


def test_harmless_ends_widen_the_allowance_and_losses_narrow_it() -> None:
    allowances = []
    for lost in (False, True):
        trust = after(10)
        for _ in range(20):
            trust.exposed(10)
            trust.ended(10, lost=lost)
        trust.exposed(0)
        allowances.append(trust.allowance())
    assert allowances[0] > after(10).allowance() > allowances[1]


def test_recency_goes_on_until_half_of_the_credit_is_free_again() -> None:
    trust = after(10)
    trust.exposed(int(trust.allowance()) + 1)
    assert trust.follows_recency
    exposed = trust._exposed
    changed = []
    while not changed:
        trust.ended(1, lost=False)
        if trust.exposed(0):
            changed.append(trust._exposed)
    assert 0.4 * exposed < changed[0] < 0.7 * exposed


def test_losses_beyond_the_budget_end_it_whatever_is_exposed() -> None:
    trust = after(100, found_by_lru=POOL, gain=0)
    trust.used(POOL, POOL - 1 - int(101 * BUDGET * POOL), POOL)
    assert trust.follows_recency


def test_what_was_gained_may_be_exposed() -> None:
    assert after(10, gain=50).allowance() > after(10).allowance() + 500


def fall_behind(trust: Trust, turnovers: int) -> list[bool]:
    """What it said after each turnover with more misses than are tolerated; credit is never short."""
    said = []
    for _ in range(turnovers):
        lost = int(2 * TOLERANCE * POOL)
        trust.admitted(100 * POOL)
        for _ in range(lost):
            trust.used(POOL // lost, 0, 1)
        said.append(trust.follows_recency)
    return said


def test_pauses_double_while_it_fails_and_shorten_when_it_leads() -> None:
    trust = Trust(POOL)
    said = fall_behind(trust, 80)
    tries = [number for number, follows in enumerate(said) if not follows]
    gaps = [later - earlier for earlier, later in pairwise(tries) if later > earlier + 1]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 2 * gaps[0]
    while trust._num_left:
        trust.used(POOL, 0, 0)
    for _ in range(POOL):
        trust.used(1, 1, 0)
    assert trust._pause == FIRST_PAUSE


def test_one_large_miss_is_chance_and_many_small_ones_are_not() -> None:
    for misses, follows in (([100], False), ([1] * 100, True)):
        trust = after(10)
        trust.admitted(100 * POOL)
        for miss in misses:
            trust.used(0, 0, miss)
        assert trust.follows_recency == follows
