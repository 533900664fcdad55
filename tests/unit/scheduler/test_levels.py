import pytest

from radixcache import PrefixCache
from scheduler import QUEUE_POLICIES, PolicyOptions, Request, RequestState
from scheduler.levels import PriorityLevels
from scheduler.policies import UNBOUNDED
from scheduler.policies.k_lpm import KLPM
from scheduler.policies.lpm import LPM
from tests.unit.scheduler.loop import Loop, ids

STEP = 20.0
NO_BOUND = 10**9


def levels_of(loop: Loop) -> PriorityLevels:
    queue = loop.scheduler._roster.line._queue
    return queue if isinstance(queue, PriorityLevels) else queue._inner


def admitted(*requests):
    first = [request for request in requests if request.first_scheduled_at is not None]
    return sorted(first, key=lambda request: request.first_scheduled_at)


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
def test_the_higher_level_goes_first(policy):
    loop = Loop(100, 4, policy=policy, priority_step=1e6, max_running=1)
    low = [loop.submit(f"low{n}", ids(100 * n, 9), 1) for n in range(3)]
    high = [loop.submit(f"high{n}", ids(1000 + 100 * n, 9), 1, priority=2) for n in range(3)]
    loop.run()
    assert set(admitted(*low, *high)[:3]) == set(high)


def test_within_a_level_the_order_is_that_of_the_policy():
    loop = Loop(100, 4, policy="lpm", priority_step=1e6, max_running=1)
    loop.warm(ids(500, 20))
    cold = loop.submit("cold", ids(0, 9), 1, priority=1)
    warm = loop.submit("warm", ids(500, 21), 1, priority=1)
    warmest = loop.submit("warmest", ids(500, 21), 1)
    loop.run()
    assert admitted(cold, warm, warmest) == [warm, cold, warmest]


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
@pytest.mark.parametrize("height", [1, 3])
def test_a_stream_of_important_requests_cannot_keep_an_unimportant_one_out(policy, height):
    loop = Loop(100, 4, policy=policy, priority_step=STEP, max_running=1, max_overtakes=NO_BOUND)
    low = loop.submit("low", ids(5000, 9), 1)
    high = []
    while low.state is RequestState.WAITING:
        for _ in range(2):
            high.append(loop.submit(f"high{len(high)}", ids(0, 9), 1, priority=height))
        loop.step()
        assert len(loop.plans) < 1_000
    before = [request for request in admitted(low, *high) if request is not low]
    assert all(request.submitted_at <= low.submitted_at + height * STEP for request in before)
    assert before


def test_without_a_step_priorities_do_not_order_the_queue():
    loop = Loop(100, 4, max_running=1)
    low, high = loop.submit("low", ids(0, 9), 1), loop.submit("high", ids(100, 9), 1, priority=9)
    loop.run()
    assert admitted(low, high) == [low, high]


def test_an_important_request_that_is_held_lets_the_others_pass():
    loop = Loop(100, 4, policy="lpm", priority_step=1e6, token_budget=24, prefill_chunk_tokens=8)
    loop.submit("leader", ids(0, 64), 1, priority=1)
    loop.step()
    held = loop.submit("held", ids(0, 65), 1, priority=5)
    low = loop.submit("low", ids(500, 9), 1)
    loop.run()
    assert low.first_scheduled_at < held.first_scheduled_at
    assert held.matched_len == 64


def test_a_level_that_comes_later_knows_what_is_in_flight():
    loop = Loop(100, 4, policy="lpm", priority_step=1e6, token_budget=24, prefill_chunk_tokens=8)
    loop.submit("leader", ids(0, 64), 1)
    loop.step()
    follower = loop.submit("follower", ids(0, 65), 1, priority=3)
    loop.run()
    assert follower.prefill_tokens == 1


def test_holds_that_ended_are_forgotten():
    loop = Loop(100, 4, policy="lpm", priority_step=1e6, prefill_chunk_tokens=8)
    for number in range(5):
        loop.submit(f"r{number}", ids(100 * number, 40), 2, priority=number)
    loop.run()
    assert not levels_of(loop)._holds
    assert len(levels_of(loop)) == 0


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
def test_a_level_that_nobody_waits_in_no_longer_follows_the_cache(policy):
    loop = Loop(100, 4, policy=policy, priority_step=1e6)
    before = len(loop.cache._state.observers)
    for number in range(20):
        loop.submit(f"r{number}", ids(100 * number, 9), 2, priority=number)
    assert len(loop.cache._state.observers) == before + 20
    loop.run()
    assert len(loop.cache._state.observers) == before


@pytest.mark.parametrize("policy", sorted(UNBOUNDED | {"fcfs", "hrrn"}))
def test_levels_are_dropped_when_the_last_request_leaves(policy):
    loop = Loop(100, 4, policy=policy, priority_step=1e6)
    for number in range(20):
        loop.submit(f"r{number}", ids(100 * number, 9), 2, priority=number)
    assert len(levels_of(loop)._levels) == 20
    for number in range(10):
        loop.abort(f"r{number}")
    assert len(levels_of(loop)._levels) == 10
    loop.run()
    assert not levels_of(loop)._levels
    assert not levels_of(loop)._since


def test_a_level_that_remembers_what_was_served_is_kept():
    loop = Loop(100, 4, policy="fair", priority_step=1e6)
    loop.submit("r", ids(0, 9), 3, client="a", priority=1)
    loop.run()
    assert levels_of(loop)._levels[1]._balances.deficit("a") == 8192 - 9 - 3 * 2.0


def test_a_level_that_counts_to_k_is_kept_until_it_begins_anew():
    cache = PrefixCache(Loop().cache.config)
    levels = PriorityLevels(lambda: KLPM(cache, PolicyOptions(k=2)), 1.0)
    are_kept = []
    for number in range(4):
        request = Request.of(f"r{number}", ids(0, 9), 1)
        request.number, request.submitted_at = number, 0.0
        levels.add(request)
        assert levels.head(0.0) is request
        levels.admitted(request, 9)
        are_kept.append(bool(levels._levels))
    assert are_kept == [True, False, True, False]


def test_a_level_that_begins_anew_knows_what_is_in_flight():
    cache = PrefixCache(Loop().cache.config)
    levels = PriorityLevels(lambda: LPM(cache, PolicyOptions()), 1.0)
    leader = cache.open(ids(0, 9))
    requests = [Request.of(f"r{number}", ids(0, 10), 1) for number in range(2)]
    levels.hold(*leader.in_flight)
    for number, request in enumerate(requests):
        request.number, request.submitted_at = number, 0.0
        levels.add(request)
        assert levels.head(0.0) is None
        levels.remove(request)
        assert not levels._levels
    levels.release(*leader.in_flight)
    assert not levels._holds


def test_released_once_is_not_released_twice():
    cache = PrefixCache(Loop().cache.config)
    levels = PriorityLevels(lambda: LPM(cache, PolicyOptions()), 1.0)
    page = (7, b"page")
    levels.hold(*page)
    levels.hold(*page)
    levels.release(*page)
    assert list(levels._holds.elements()) == [page]
