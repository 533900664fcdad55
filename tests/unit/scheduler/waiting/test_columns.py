"""Keys that were looked up stand in the rows of those they belong to, once somebody looks at all."""

import pytest

from scheduler import PolicyOptions, Request
from scheduler.policies.fair import Fair
from scheduler.policies.hrrn import HRRN
from tests.unit.scheduler.loop import Loop, ids

NUM_TOKENS = 8


def waiting(policy: Fair | HRRN, num_behind: int, num_others: int) -> None:
    """So many requests behind one prefix of two pages, then others."""
    for number in range(num_behind + num_others):
        head = ids(0, NUM_TOKENS) if number < num_behind else ids(1000 * number, NUM_TOKENS)
        request = Request.of(f"r{number}", [*head, number], 1, client="a")
        request.number, request.submitted_at = number, 0.0
        policy.add(request)


@pytest.mark.parametrize("make", [Fair, HRRN])
@pytest.mark.parametrize("num_leaving", [0, 1, 4])
def test_a_key_is_written_for_who_still_waits(make, num_leaving):
    loop = Loop()
    policy = make(loop.cache, PolicyOptions())
    waiting(policy, num_behind=4, num_others=4)
    (cold,) = set(policy._columns.keys.tolist())
    policy.head(0)
    leader = loop.cache.open([*ids(0, NUM_TOKENS), 1])
    leader.reserve(NUM_TOKENS + 1)
    leader.advance(NUM_TOKENS + 1)
    leader.close()
    assert policy.head(0).number == 0
    for number in range(num_leaving):
        policy.remove(policy.forest.numbered(number))
    policy._columns._rows.close_gaps()
    policy._columns.settle()
    keys = policy._columns.keys.tolist()
    assert all(key != cold for key in keys[: 4 - num_leaving])
    assert keys[4 - num_leaving :] == [cold] * 4
