import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import QUEUE_POLICIES, Request, RequestState
from scheduler import overtakes as overtakes_module
from scheduler.overtakes import Overtakes
from scheduler.policies import UNBOUNDED
from scheduler.policies.dfs import DFS
from scheduler.policies.lpm import LPM
from tests.unit.scheduler.loop import Loop, ids
from tests.unit.scheduler.overtaking import OvertakeCounter

BOUNDED = sorted(QUEUE_POLICIES.keys() - UNBOUNDED)


class BoundedLPM(LPM):
    is_bounded = True


class BoundedDFS(DFS):
    is_bounded = True


GREEDY = [BoundedLPM, BoundedDFS]
"""Orders that let anybody wait for ever, under the bound that orders get unless they say otherwise."""


def numbered(number: int) -> Request:
    request = Request.of(f"r{number}", [1], 1)
    request.number = number
    return request


# Who is due


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("arrive"), st.integers(1, 6)),
            st.tuples(st.sampled_from(["admit", "abort", "serve"]), st.integers(0, 99)),
        ),
        max_size=80,
    ),
    st.sampled_from([1, 2, 256]),
    st.sampled_from([1, 3, 24]),
)
def test_the_oldest_that_reached_its_own_limit_is_due(events, admitted_at_once, counted_one_by_one):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overtakes_module, "_FEW", admitted_at_once)
        patch.setattr(overtakes_module, "_NEAR", counted_one_by_one)
        overtake(events)


@pytest.mark.parametrize("near", [1, 3, 4, 24])
@pytest.mark.parametrize("seed", range(8))
def test_the_oldest_that_reached_its_own_limit_is_due_among_many(seed, near, monkeypatch):
    monkeypatch.setattr(overtakes_module, "_NEAR", near)
    rng = random.Random(seed)
    limits = rng.choice([[1, 40], [30, 31, 32], range(1, 200), [50] * 46 + [9]])
    events = [("arrive", rng.choice(limits)) for _ in range(200)]
    if seed % 2:  # many that have little left, in the same places of each stretch
        events[:: 2 * near - 1] = [("arrive", rng.randrange(1, 20)) for _ in events[:: 2 * near - 1]]
    weights = rng.choice([(5, 5, 1, 1), (1, 9, 0, 1), (3, 3, 3, 3)])
    later = rng.choices(["arrive", "admit", "abort", "serve"], weights, k=300)
    events += [(each, rng.choice(limits) if each == "arrive" else rng.randrange(10_000)) for each in later]
    overtake(events)


def overtake(events: list[tuple[str, int]]) -> None:
    overtakes, left, coming = Overtakes(), {}, 0
    for event, value in events:
        if event == "arrive":
            overtakes.arrived(numbered(coming), value)
            left[coming] = value
            coming += 1
        elif left:
            due = overtakes.due()
            number = sorted(left)[value % len(left)]
            if event == "serve" and due is not None:
                number = due.number
            del left[number]
            overtakes.left(number, admitted=event != "abort")
            if event != "abort":
                left = {each: times - (each < number) for each, times in left.items()}
        due = overtakes.due()
        assert (None if due is None else due.number) == min(
            (number for number, times in left.items() if times <= 0), default=None
        )
        assert {number: overtakes.allowance(number) for number in left} == left
        assert len(overtakes) == len(left)


def test_a_younger_request_with_a_lower_limit_is_due_first():
    overtakes = Overtakes()
    for number, limit in enumerate([10, 2, 10, 10]):
        overtakes.arrived(numbered(number), limit)
    for number in (2, 3):
        assert overtakes.due() is None
        overtakes.left(number, admitted=True)
    assert overtakes.due().number == 1


def test_places_of_those_who_left_are_used_again():
    overtakes = Overtakes()
    overtakes.arrived(numbered(0), 10**9)
    for number in range(1, 10_000):
        overtakes.arrived(numbered(number), 5)
        overtakes.left(number, admitted=True)
    assert overtakes.allowance(0) == 10**9 - 9_999
    assert len(overtakes._rows.column(0)) <= 16


# An endless stream of hits against one cold request


def stream(
    policy: object,
    limit: int | None,
    max_running: int = 1,
    num_steps: int = 60,
    *,
    is_bounded: bool = True,
) -> OvertakeCounter:
    loop = Loop(200, 4, policy=policy, max_overtakes=limit, max_running=max_running)
    counter = OvertakeCounter(loop, is_bounded=is_bounded)
    loop.warm(ids(0, 40))
    counter.submit("cold", ids(5000, 30), 1)
    for number in range(num_steps):
        for each in range(max_running + 1):
            counter.submit(f"hit{number}.{each}", [*ids(0, 40), 100 + each], 1)
        counter.step()
    return counter


@pytest.mark.parametrize("limit", [1, 2, 7])
@pytest.mark.parametrize("max_running", [1, 3])
@pytest.mark.parametrize("policy", [*BOUNDED, *GREEDY])
def test_a_cold_request_is_admitted_after_as_many_overtakes_as_allowed(policy, max_running, limit):
    counter = stream(policy, limit, max_running)
    cold = next(request for request in counter.first_admissions if request.request_id == "cold")
    assert counter.times[cold.number] <= limit
    if policy in GREEDY:
        assert counter.times[cold.number] == limit


@pytest.mark.parametrize("policy", [*sorted(UNBOUNDED), LPM, DFS, lambda *given: LPM(*given)])
def test_plain_longest_match_and_depth_first_promise_nothing(policy):
    counter = stream(policy, 1, is_bounded=False)
    assert counter.waiting()[0].request_id == "cold"
    assert counter.times[0] == 60


def test_by_default_512_may_pass_and_no_more():
    loop = Loop(200, 4, policy=BoundedLPM, max_running=8)
    counter = OvertakeCounter(loop)
    loop.warm(ids(0, 40))
    cold = counter.submit("cold", ids(5000, 30), 1)
    for number in range(80):
        for each in range(8):
            counter.submit(f"hit{number}.{each}", [*ids(0, 40), each], 1)
        counter.step()
    assert counter.times[cold.number] == 512
    assert cold.state is RequestState.FINISHED


def test_by_default_as_many_may_pass_as_waited_at_arrival_where_those_are_more():
    loop = Loop(4_000, 4, policy=BoundedLPM, max_running=1_000, token_budget=10**6)
    loop.warm(ids(0, 8))
    for number in range(700):
        loop.submit(f"old{number}", [*ids(0, 8), number], 1)
    counter = OvertakeCounter(loop)
    for number in range(700):
        counter._waiting[number] = loop.scheduler._roster.find(f"old{number}")
        counter.times[number], counter.limits[number] = 0, 700
    late = counter.submit("late", ids(5000, 9), 1)
    assert counter.limits[late.number] == 700
    for number in range(900):
        counter.submit(f"hit{number}", [*ids(0, 8), 9], 1)
    while late in counter.waiting():
        counter.step()
    assert counter.times[late.number] == 700


# Everything at once


def shaken(policy: object, limit: int | None, seed: int, **settings: object) -> OvertakeCounter:
    """Hits, cold ones, followers of cold ones, ones too large for what is free, aborts and preemptions."""
    rng = random.Random(seed)
    loop = Loop(40, 4, policy=policy, max_overtakes=limit, max_running=3, token_budget=24, **settings)
    by_client = policy == "fair"
    counter = OvertakeCounter(loop, (lambda request: request.client) if by_client else lambda request: None)
    loop.warm(ids(0, 40))
    requests: list[Request] = []
    for number in range(250):
        kind = rng.choice(["hit", "hit", "hit", "hit", "cold", "follower", "large"])
        prompt = {
            "hit": [*ids(0, 40), number % 7],
            "cold": ids(1000 + 50 * number, rng.randrange(1, 30)),
            "follower": [*ids(100_000 + 100 * (number // 20), 24), *ids(number, rng.randrange(1, 6))],
            "large": ids(1000 + 50 * number, 110),
        }[kind]
        if loop.scheduler.num_waiting < 60:
            output_len = rng.randrange(1, 12)
            hints = {"client": rng.choice("ab"), "priority": rng.randrange(3)}
            requests.append(counter.submit(f"{kind}{number}", prompt, output_len, **hints))
        if rng.random() < 0.1:
            loop.abort(rng.choice(requests).request_id)
        running = [request for request in requests if request.state is RequestState.RUNNING]
        if running and rng.random() < 0.1:
            loop.scheduler.preempt(rng.choice(running).request_id)
        counter.step()
    counter.run()
    assert all(request.state in {RequestState.FINISHED, RequestState.ABORTED} for request in requests)
    return counter


@pytest.mark.parametrize("limit", [1, 5, 20])
@pytest.mark.parametrize("policy", [*BOUNDED, *GREEDY])
def test_nobody_is_overtaken_more_often_than_allowed_whatever_happens(policy, limit):
    counter = shaken(policy, limit, seed=limit)
    if policy is BoundedLPM:
        assert max(counter.times.values()) == limit


@pytest.mark.parametrize("policy", [*BOUNDED, BoundedLPM])
def test_the_bound_holds_under_priorities_too(policy):
    shaken(policy, 5, seed=3, priority_step=10.0)


def test_a_request_that_is_due_goes_first_though_it_is_held():
    loop = Loop(100, 4, policy=BoundedLPM, max_overtakes=2, token_budget=20, prefill_chunk_tokens=8)
    leader = loop.submit("leader", ids(0, 64), 1)
    loop.step()
    follower = loop.submit("follower", [*ids(0, 64), 7], 1)
    others = [loop.submit(f"other{number}", ids(1000 + 100 * number, 9), 1) for number in range(4)]
    loop.run()
    assert follower.first_scheduled_at < leader.finished_at
    assert sum(other.first_scheduled_at < follower.first_scheduled_at for other in others) == 2


def test_the_pool_drains_for_a_due_request_that_does_not_fit():
    loop = Loop(40, 4, policy=BoundedLPM, max_overtakes=3)
    loop.warm(ids(0, 8))
    loop.submit("long", ids(100, 8), 40)
    loop.step()
    large = loop.submit("large", ids(5000, 150), 1)
    hits = []
    for number in range(60):
        hits.append(loop.submit(f"hit{number}", [*ids(0, 8), number], 2))
        loop.step()
    admitted_before = [hit for hit in hits if hit.first_scheduled_at < large.first_scheduled_at]
    assert large.first_scheduled_at is not None
    assert len(admitted_before) <= 3


def test_in_fair_a_client_is_overtaken_only_by_itself():
    loop = Loop(200, 4, policy="fair", max_overtakes=2, max_running=1)
    counter = OvertakeCounter(loop, lambda request: request.client)
    loop.warm(ids(0, 40))
    counter.submit("cold", ids(5000, 30), 1, client="a")
    for number in range(30):
        counter.submit(f"a{number}", [*ids(0, 40), 7], 1, client="a")
        counter.submit(f"b{number}", [*ids(0, 40), 7], 1, client="b")
        counter.step()
    place = [request.request_id for request in counter.first_admissions].index("cold")
    own = [request for request in counter.first_admissions[:place] if request.client == "a"]
    assert len(own) == 2
