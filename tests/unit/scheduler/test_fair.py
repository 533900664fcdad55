"""Equal service: clients that always have requests waiting get work that differs by little, at any time."""

import random
from collections import Counter

import pytest

from radixcache import CacheConfig, PrefixCache
from scheduler import PolicyOptions, Request, Scheduler, SchedulerConfig
from scheduler.policies.fair import Fair
from tests.unit.scheduler.loop import Loop, ids

OUTPUT_WEIGHT = 2.0


class Served:
    """A scheduler whose clients all keep some requests waiting, and what each was served."""

    def __init__(self, clients: str, seed: int, *, quantum: int, share_in_flight: bool) -> None:
        self.rng = random.Random(seed)
        self.cache = PrefixCache(CacheConfig(num_pages=400, page_size=4))
        options = PolicyOptions(quantum=quantum, output_weight=OUTPUT_WEIGHT)
        config = SchedulerConfig(
            policy=self.make,
            policy_options=options,
            token_budget=64,
            max_running=6,
            max_overtakes=10**9,
            share_in_flight=share_in_flight,
        )
        self.scheduler = Scheduler(self.cache, config)
        self.clients, self.lengths = clients, {"a": (1, 10), "b": (60, 120), "c": (1, 200)}
        self.waiting: Counter[str] = Counter()
        self.work: Counter[str] = Counter()
        self.overdraft = self.credit = 0.0
        self.num_requests = 0
        self.differences: dict[tuple[str, str], list[float]] = {
            (one, other): [0.0] for one in clients for other in clients if one < other
        }

    def make(self, cache: PrefixCache, options: PolicyOptions) -> Fair:
        self.fair = Fair(cache, options)
        return self.fair

    def submit(self, client: str) -> None:
        shared = ids(1000 * ord(client) + 100 * self.rng.randrange(3), 8 * self.rng.randrange(5))
        own = ids(10**6 + 1000 * self.num_requests, self.rng.randint(*self.lengths[client]))
        name = f"{client}{self.num_requests}"
        self.scheduler.submit(Request.of(name, shared + own, self.rng.randrange(1, 20), client=client), 0)
        self.num_requests += 1
        self.waiting[client] += 1

    def step(self) -> None:
        for client in self.clients:
            while self.waiting[client] < 5:
                self.submit(client)
        plan = self.scheduler.schedule(0)
        outputs = {row.request.request_id: [row.request.number] for row in plan.rows if row.max_tokens}
        for row in plan.rows:
            request = row.request
            assert request.client is not None
            if row.start == request.matched_len and not request.output and not request.prefill_tokens:
                self.waiting[request.client] -= 1
                self.work[request.client] += len(request.prompt) - request.matched_len
            self.work[request.client] += OUTPUT_WEIGHT * (row.max_tokens > 0)
        self.scheduler.commit(plan, outputs, 0)
        self.overdraft = max(
            self.overdraft, *(-self.fair._balances.deficit(client) for client in self.clients)
        )
        self.credit = max(self.credit, *map(self.fair._balances.deficit, self.clients))
        for one, other in self.differences:
            self.differences[one, other].append(self.work[one] - self.work[other])


@pytest.mark.parametrize("quantum", [20, 200, 2_000])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clients", ["ab", "abc"])
@pytest.mark.parametrize("share_in_flight", [True, False])
def test_work_between_any_two_moments_differs_by_at_most_twice_overdraft_and_quantum(
    clients, seed, quantum, share_in_flight
):
    served = Served(clients, seed, quantum=quantum, share_in_flight=share_in_flight)
    for _ in range(600):
        served.step()
    assert min(served.work.values()) > 5_000
    if not share_in_flight:
        assert served.credit <= quantum
    most = 2 * (served.overdraft + max(quantum, served.credit))
    for course in served.differences.values():
        assert max(course) - min(course) <= most


def order_of(requests: list[Request]) -> list[str]:
    return [each.request_id for each in sorted(requests, key=lambda each: each.first_scheduled_at)]


def test_a_client_with_one_request_is_not_kept_behind_one_with_many():
    options = PolicyOptions(quantum=50)
    loop = Loop(200, 4, policy="fair", policy_options=options, max_running=1)
    many = [loop.submit(f"many{n}", ids(100 * n, 40), 1, client="many") for n in range(20)]
    few = loop.submit("few", ids(9000, 40), 1, client="few")
    loop.run()
    assert order_of([*many, few]).index("few") <= 2


def test_within_a_client_the_longest_match_goes_first():
    loop = Loop(200, 4, policy="fair", max_running=1)
    loop.warm(ids(500, 40))
    cold = loop.submit("cold", ids(0, 40), 1, client="a")
    warm = loop.submit("warm", ids(500, 41), 1, client="a")
    loop.run()
    assert order_of([cold, warm]) == ["warm", "cold"]


def test_what_is_cached_is_not_charged():
    loop = Loop(200, 4, policy="fair", max_running=1)
    loop.warm(ids(500, 40))
    loop.submit("warm", ids(500, 41), 3, client="a")
    loop.run()
    fair = loop.scheduler._roster.line._queue._inner
    assert fair._balances.deficit("a") == 8192 - 1 - 3 * OUTPUT_WEIGHT


def test_nobody_saves_for_later_and_debts_fall_with_every_round():
    cache = Loop().cache
    fair = Fair(cache, PolicyOptions(quantum=10))
    requests = [Request.of(f"r{n}", [n], 1, client="ab"[n % 2]) for n in range(6)]
    for number, request in enumerate(requests):
        request.number = number
    fair.add(requests[0])
    assert fair.head(0) is requests[0]
    fair.admitted(requests[0], 35)
    assert fair._balances.deficit("a") == -25
    for number, left in ((1, -25), (3, -15), (5, -5)):
        fair.add(requests[number])
        assert fair.head(0) is requests[number]
        fair.admitted(requests[number], 10)
        assert fair._balances.deficit("a") == left + 10 * (number > 0)


def test_a_round_is_as_long_as_the_client_needs_that_owes_least_however_far_behind_it_stands():
    fair = Fair(Loop().cache, PolicyOptions(quantum=10))
    requests = [Request.of(f"r{n}", [n], 1, client="a" if n < 150 else "b") for n in range(151)]
    for number, request in enumerate(requests):
        request.number = number
    for request in requests[:150]:
        fair.add(request)
    assert fair.head(0) is requests[0]
    fair.admitted(requests[0], 1_000)
    fair.add(requests[150])
    assert fair.head(0) is requests[150]
    fair.admitted(requests[150], 1)
    assert fair.head(0) is requests[1]


def test_who_comes_back_has_saved_nothing():
    fair = Fair(Loop().cache, PolicyOptions(quantum=10))
    requests = [Request.of(f"r{n}", [n], 1, client="a" if n in (0, 5) else "b") for n in range(6)]
    for number, request in enumerate(requests):
        request.number = number
    for request in requests[:5]:
        fair.add(request)
        assert fair.head(0) is request
        fair.admitted(request, 10 if request.client == "b" else 1)
    assert fair._balances.deficit("a") > 30
    fair.add(requests[5])
    assert fair._balances.deficit("a") == 0


def test_clients_that_neither_wait_nor_owe_are_forgotten():
    loop = Loop(200, 4, policy="fair", max_running=4)
    for number in range(500):
        loop.submit(f"r{number}", [number, 1], 1, client=f"client{number}")
        loop.step()
    fair = loop.scheduler._roster.line._queue._inner
    assert len(fair._balances) < 100
    assert not fair._num_waiting


def test_a_prefix_moves_once_however_many_clients_wait_for_it(monkeypatch):
    cache = Loop().cache
    fair = Fair(cache, PolicyOptions())
    for number in range(200):
        request = Request.of(f"r{number}", [*ids(0, 8), number], 1, client=f"client{number}")
        request.number = number
        fair.add(request)
    anchors, moved = fair.forest._anchors, []
    real = anchors.put
    monkeypatch.setattr(anchors, "put", lambda node, *rest: (moved.append(node), real(node, *rest)))
    leader = cache.open([*ids(0, 8), 1000])
    leader.reserve(9)
    leader.advance(9)
    leader.close()
    assert len(moved) == 1
    assert fair._columns.keys.tolist() == [0] * 200
    assert fair.head(0).number == 0
    assert fair._columns.keys.tolist() == [2] * 200


def makespan(policy: str, *, num_requests: int = 700, backlog: int = 150) -> float:
    """Time for sessions of three clients with prefixes of their own, in a pool that holds a part of them.

    A step takes 1 and a hundredth for each token it computes.
    """
    rng = random.Random(5)
    cache = PrefixCache(CacheConfig(num_pages=1_500, page_size=16))
    scheduler = Scheduler(cache, SchedulerConfig(policy=policy, token_budget=1_024, max_running=16))
    coming = []
    for number in range(num_requests):
        client = rng.choice("abbbccc")
        system = ids(10**6 * ord(client), 480)
        document = ids(10**6 * ord(client) + 10_000 * rng.randrange(1, 16), 16 * rng.randrange(20, 120))
        own = ids(5 * 10**8 + 1_000 * number, rng.randrange(20, 200))
        coming.append(Request.of(f"r{number}", system + document + own, rng.randrange(4, 60), client=client))
    coming.reverse()
    now = 0.0
    while coming or not scheduler.is_idle:
        while coming and scheduler.num_waiting < backlog:
            scheduler.submit(coming.pop(), now)
        plan = scheduler.schedule(now)
        now += 1 + plan.num_tokens / 100
        outputs = {row.request.request_id: [row.request.number] for row in plan.rows if row.max_tokens}
        scheduler.commit(plan, outputs, now)
    return now


def test_fairness_costs_less_than_a_tenth_of_the_throughput():
    lpm, fair, fcfs = (makespan(policy) for policy in ("lpm", "fair", "fcfs"))
    assert lpm < 0.9 * fcfs, "a workload on which the order matters"
    assert lpm / fair >= 0.9
