"""Field faults F01 to F03, F12 and F15: who comes first, who waits for whom, and for how long."""

import random

import pytest

from radixcache import PrefixCache
from scheduler import QUEUE_POLICIES, PolicyOptions, Request, RequestState
from scheduler.policies import UNBOUNDED
from scheduler.policies.fcfs import FCFS
from tests.unit.scheduler.loop import Loop, ids

BOUNDED = sorted(QUEUE_POLICIES.keys() - UNBOUNDED)
ALL = sorted(QUEUE_POLICIES)

# F01: a cold request against an endless stream of hits


def passed_before_a_cold_request(loop: Loop, num_steps: int) -> int | None:
    """One slot, and one request with 1,000 tokens cached at each step: how many go before the cold one."""
    prefix = ids(0, 1_000)
    loop.warm(prefix)
    cold = loop.submit("cold", ids(10_000, 1_001), 1)
    hits = []
    for number in range(num_steps):
        hits.append(loop.submit(f"hit{number}", [*prefix, number], 1))
        loop.step()
    if cold.first_scheduled_at is None:
        return None
    before = [hit for hit in hits if hit.first_scheduled_at is not None]
    return sum(hit.first_scheduled_at < cold.first_scheduled_at for hit in before)


@pytest.mark.parametrize("max_overtakes", [1, 10, 40])
@pytest.mark.parametrize("policy", BOUNDED)
def test_f01_a_cold_request_runs_within_the_bound_that_is_declared(policy, max_overtakes):
    loop = Loop(1_000, 4, policy=policy, max_running=1, max_overtakes=max_overtakes)
    passed = passed_before_a_cold_request(loop, max_overtakes + 3)
    assert passed is not None
    assert passed <= max_overtakes


@pytest.mark.parametrize("k", [2, 4, 8])
def test_f01_under_k_lpm_one_that_finds_nobody_runs_within_k_admissions(k):
    loop = Loop(1_000, 4, policy="k-lpm", policy_options=PolicyOptions(k=k), max_running=1)
    assert passed_before_a_cold_request(loop, k + 1) <= k


def test_f01_by_default_even_the_most_patient_order_ends_the_wait():
    loop = Loop(1_000, 4, policy="hrrn", max_running=1)
    assert passed_before_a_cold_request(loop, 514) <= 512


@pytest.mark.parametrize("policy", sorted(UNBOUNDED))
def test_f01_plain_longest_match_says_that_it_starves_and_does(policy):
    assert passed_before_a_cold_request(Loop(1_000, 4, policy=policy, max_running=1), 60) is None


# F02: no cut-off at any queue length


def hit_rate(policy: str, num_waiting: int) -> float:
    """Requests of two groups by turns, A, B, A, B, in a pool with room for one group."""
    page_size, prefix_pages = 4, 20
    loop = Loop(prefix_pages + 3, page_size, policy=policy, max_running=1, share_in_flight=False)
    for number in range(num_waiting):
        prefix = ids(1_000 * (number % 2), prefix_pages * page_size)
        loop.submit(f"r{number}", [*prefix, *ids(10_000 + 10 * number, 5)], 1)
    loop.run()
    return loop.cache.stats.hit_rate


@pytest.mark.parametrize("policy", ["lpm", "dfs"])
@pytest.mark.parametrize("num_waiting", [127, 128, 129, 130, 300])
def test_f02_the_order_is_the_same_below_and_above_128_waiting(policy, num_waiting):
    all_but_the_first_of_each_group = 80 * (num_waiting - 2) / (85 * num_waiting)
    assert hit_rate(policy, num_waiting) == pytest.approx(all_but_the_first_of_each_group)


def test_f02_in_order_of_arrival_the_groups_drive_each_other_out():
    assert hit_rate("fcfs", 129) < 0.1


# F03: a head that does not fit yet, measured


def waits_of(num_small: int, policy: str = "fcfs") -> tuple[Request, list[Request], Loop]:
    """A pool with room for small ones only, a head that needs nearly all of it, and small ones behind it."""
    loop = Loop(40, 4, policy=policy)
    for number in range(4):
        loop.submit(f"run{number}", ids(100 * number, 8), 10 + 5 * number)
    loop.step()
    head = loop.submit("head", ids(5_000, 150), 2)
    small = [loop.submit(f"small{number}", ids(9_000 + 10 * number, 3), 4) for number in range(num_small)]
    loop.run()
    return head, small, loop


@pytest.mark.parametrize("policy", ["fcfs", "k-lpm", "fair"])
def test_f03_the_wait_of_the_head_does_not_depend_on_who_stands_behind_it(policy):
    waits = {waits_of(number, policy)[0].first_scheduled_at for number in (0,)}
    for num_small in (1, 8, 40):
        head, small, _ = waits_of(num_small, policy)
        waits.add(head.first_scheduled_at - num_small)  # each submission is a tick of the clock
        assert all(each.state is RequestState.FINISHED for each in small)
    assert len(waits) == 1


def test_f03_what_the_strict_head_costs_those_behind_it_is_its_own_wait():
    head, small, loop = waits_of(12)
    alone = Loop(40, 4)
    alone_small = [alone.submit(f"small{n}", ids(9_000 + 10 * n, 3), 4) for n in range(12)]
    alone.run()
    cost = small[-1].finished_at - small[-1].submitted_at
    cost -= alone_small[-1].finished_at - alone_small[-1].submitted_at
    assert 0 < cost <= head.finished_at - head.submitted_at
    assert len(loop.plans) < 60


class Skipping(FCFS):
    """Order of arrival, but whoever does not fit is passed over for one that does, as other engines do."""

    def __init__(self, cache: PrefixCache, options: PolicyOptions) -> None:
        super().__init__(cache, options)
        self._cache = cache
        self._waiting: dict[int, Request] = {}

    def add(self, request: Request) -> None:
        super().add(request)
        self._waiting[request.number] = request

    def remove(self, request: Request) -> None:
        super().remove(request)
        del self._waiting[request.number]

    def head(self, now: float) -> Request | None:
        page_size, available = self._cache.config.page_size, self._cache.pages.available
        for request in self._waiting.values():
            if -(-(len(request.prompt) + request.max_new_tokens) // page_size) <= available:
                return request
        return super().head(now)


def waits_under(policy: object, max_overtakes: int | None) -> tuple[float, float, int]:
    """A head of most of the pool in a stream of small ones: its wait, their mean wait, how many passed it."""
    loop = Loop(40, 4, policy=policy, max_overtakes=max_overtakes)
    for number in range(4):
        loop.submit(f"run{number}", ids(100 * number, 8), 10 + 5 * number)
    loop.step()
    head = loop.submit("head", ids(5_000, 150), 2)
    small = []
    for number in range(60):
        small.append(loop.submit(f"small{number}", ids(9_000 + 10 * number, 3), 12))
        loop.step()
    loop.run()
    waits = [each.first_scheduled_at - each.submitted_at for each in small]
    passed = sum(each.first_scheduled_at < head.first_scheduled_at for each in small)
    return head.first_scheduled_at - head.submitted_at, sum(waits) / len(waits), passed


def test_f03_strict_order_reservation_and_skipping_side_by_side():
    strict, reserving = waits_under("fcfs", None), waits_under(Skipping, 1)
    bounded, unlimited = waits_under(Skipping, 8), waits_under(Skipping, 10**9)
    assert [each[2] for each in (strict, reserving, bounded)] == [0, 1, 8]
    assert unlimited[2] > 30
    assert strict[0] == reserving[0] < bounded[0] < unlimited[0]  # what the head waits
    assert strict[1] > reserving[1] > bounded[1] > unlimited[1]  # what the others wait
    assert bounded[0] < 1.1 * strict[0]


# F12: equal cold prompts at once


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.parametrize("first_is_aborted_after", [None, 0, 1, 3, 9])
def test_f12_ten_at_once_cost_one_prefill_and_the_nine_wait_little_longer(policy, first_is_aborted_after):
    page_size, tail = 4, 3
    loop = Loop(2_000, page_size, policy=policy, token_budget=300, prefill_chunk_tokens=100)
    prefix = ids(0, 1_000)
    requests = [loop.submit(f"r{n}", [*prefix, *ids(5_000 + 10 * n, tail)], 1) for n in range(10)]
    if first_is_aborted_after is not None:
        for _ in range(first_is_aborted_after):
            loop.step()
        leader = next((each for each in requests if each.state is RequestState.RUNNING), requests[0])
        loop.abort(leader.request_id)
    loop.run()
    assert sum(request.prefill_tokens for request in requests) <= 1_000 + 10 * tail + page_size
    one_prefill = 1_000 // 100
    assert len(loop.plans) <= one_prefill + 4
    assert sum(request.state is RequestState.FINISHED for request in requests) >= 9


# F15: users of high priority


def hits_of_the_high_class(eviction: str, hint: int) -> float:
    """Two classes under pressure: a few users with a prefix, many others with prompts of their own."""
    rng = random.Random(1)
    loop = Loop(60, 4, eviction=eviction, max_running=2)
    prefix, high = ids(0, 80), []
    for number in range(120):
        if number % 12 == 0:
            high.append(loop.submit(f"high{number}", [*prefix, number], 2, priority=hint))
        loop.submit(f"low{number}", ids(1_000 + 100 * number, rng.randrange(30, 60)), 2)
        loop.step()
        loop.step()
    loop.run()
    return sum(request.matched_len for request in high) / sum(len(request.prompt) for request in high)


def test_f15_with_the_option_on_the_high_class_keeps_its_hits():
    assert hits_of_the_high_class("priority", 1) > 0.85
    assert hits_of_the_high_class("priority", 0) < 0.5
    assert hits_of_the_high_class("lru", 1) < 0.5


@pytest.mark.parametrize("policy", ALL)
def test_f15_high_priority_goes_first_and_still_starves_nobody(policy):
    loop = Loop(100, 4, policy=policy, max_running=1, priority_step=10.0)
    low = loop.submit("low", ids(5_000, 30), 1)
    high = []
    while low.state is RequestState.WAITING:
        high.append(loop.submit(f"high{len(high)}", ids(0, 9), 1, priority=4))
        loop.step()
        assert len(high) < 200
    assert high[0].first_scheduled_at < low.first_scheduled_at
