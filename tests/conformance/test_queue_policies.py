"""One contract over all orders of the waiting queue, with and without priority levels."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from radixcache import CacheConfig, Namespace, PrefixCache
from scheduler import QUEUE_POLICIES, PolicyOptions, Request, RequestState
from scheduler.levels import PriorityLevels
from scheduler.policies import UNBOUNDED, QueuePolicy
from tests.unit.scheduler.loop import Loop, ids
from tests.unit.scheduler.overtaking import OvertakeCounter

NAMESPACES: tuple[Namespace, ...] = (None, "tenant")
ORDERS = [(policy, step) for policy in sorted(QUEUE_POLICIES) for step in (None, 8.0)]
orders = pytest.mark.parametrize(
    ("policy", "step"), ORDERS, ids=[f"{policy}{' in levels' * bool(step)}" for policy, step in ORDERS]
)


@dataclass(frozen=True)
class Planned:
    """A request that is to come."""

    prompt: list[int]
    output_len: int
    hints: dict[str, object]


def random_traffic(rng: random.Random, num_requests: int) -> list[Planned]:
    """Prefixes in common, some of them long, in two namespaces and for three clients."""
    traffic = []
    for number in range(num_requests):
        shared = ids(1000 * rng.randrange(4), rng.randrange(40))
        own = ids(10_000 + 100 * number, rng.randrange(1, 12))
        hints = {
            "namespace": rng.choice(NAMESPACES),
            "read": rng.random() < 0.9,
            "write": rng.random() < 0.9,
            "priority": rng.randrange(3),
            "client": rng.choice((None, "a", "b")),
        }
        traffic.append(Planned(shared + own, rng.randrange(1, 14), hints))
    return traffic


class Service:
    """Random arrivals, and aborts and preemptions in every state, in a pool that is too small."""

    def __init__(self, policy: str, step: float | None, seed: int, *, num_pages: int = 40) -> None:
        self.rng = random.Random(seed)
        self.loop = Loop(
            num_pages,
            4,
            policy=policy,
            priority_step=step,
            token_budget=24,
            prefill_chunk_tokens=12,
            max_running=4,
            max_overtakes=6,
        )
        by_client = policy == "fair"
        self.counter = OvertakeCounter(
            self.loop,
            (lambda request: request.client) if by_client else (lambda request: None),
            is_bounded=policy not in UNBOUNDED,
        )
        self.requests: list[Request] = []
        self.aborted_in: set[RequestState] = set()

    def submit(self, planned: Planned) -> None:
        name = f"r{len(self.requests)}"
        self.requests.append(self.counter.submit(name, planned.prompt, planned.output_len, **planned.hints))

    def of_state(self, *states: RequestState) -> list[Request]:
        return [request for request in self.requests if request.state in states]

    def disturb(self) -> None:
        chance = self.rng.random()
        states = [RequestState.WAITING, RequestState.RUNNING, RequestState.PREEMPTED]
        victims = self.of_state(self.rng.choice(states))
        if chance < 0.08 and victims:
            victim = self.rng.choice(victims)
            self.aborted_in.add(victim.state)
            assert self.loop.abort(victim.request_id)
            assert not self.loop.abort(victim.request_id)
        elif chance < 0.2 and (running := self.of_state(RequestState.RUNNING)):
            self.loop.scheduler.preempt(self.rng.choice(running).request_id)

    def serve(self, traffic: list[Planned]) -> None:
        for planned in traffic:
            self.submit(planned)
            self.disturb()
            if self.rng.random() < 0.8:
                self.counter.step()
        self.counter.run()

    def first_admissions(self) -> list[int]:
        return [request.number for request in self.counter.first_admissions]


def served(policy: str, step: float | None, seed: int) -> Service:
    service = Service(policy, step, seed)
    service.serve(random_traffic(random.Random(seed), 60))
    return service


@orders
def test_nobody_is_lost_and_none_runs_twice(policy, step):
    aborted_in = set()
    for seed in range(4):
        service = served(policy, step, seed)
        aborted_in |= service.aborted_in
        for request in service.requests:
            assert request.state in {RequestState.FINISHED, RequestState.ABORTED}
            if request.state is RequestState.FINISHED:
                assert len(request.output) == request.max_new_tokens
                assert request.prefill_tokens + request.matched_len == len(request.prompt)
        order = service.first_admissions()
        assert len(set(order)) == len(order)
        assert set(order) >= {r.number for r in service.of_state(RequestState.FINISHED)}
        assert service.loop.scheduler.num_waiting == service.loop.scheduler.num_running == 0
        service.loop.assert_nothing_is_held()
    assert aborted_in == {RequestState.WAITING, RequestState.RUNNING, RequestState.PREEMPTED}


@orders
def test_the_bound_is_kept_or_none_is_promised(policy, step):
    for seed in range(4, 8):
        service = served(policy, step, seed)
        most = max(service.counter.times.values())
        assert most <= 6 or policy in UNBOUNDED


@orders
def test_equal_calls_give_equal_plans(policy, step):
    def plans() -> list[object]:
        loop = served(policy, step, 11).loop
        return [
            [(row.request.number, row.start, row.extend_len, row.max_tokens) for row in plan.rows]
            for plan in loop.plans
        ]

    assert plans() == plans()


def queue_of(policy: str, step: float | None, cache: PrefixCache) -> QueuePolicy:
    def make() -> QueuePolicy:
        return QUEUE_POLICIES[policy](cache, PolicyOptions(k=3, quantum=50))

    return make() if step is None else PriorityLevels(make, step)


def drained(queue: QueuePolicy, admit: Callable[[Request], None]) -> list[int]:
    """Numbers in the order in which the queue offers them, each admitted at once."""
    order, now = [], 100.0
    while (request := queue.head(now)) is not None:
        assert queue.head(now) is request, "asking changes the answer"
        admit(request)
        order.append(request.number)
        now += 1.0
    return order


@orders
def test_the_order_is_a_permutation_of_those_who_stayed(policy, step):
    for seed in range(10):
        rng = random.Random(seed)
        cache = PrefixCache(CacheConfig(num_pages=30, page_size=4))
        queue = queue_of(policy, step, cache)
        requests = {}
        for number, planned in enumerate(random_traffic(rng, 40)):
            request = Request.of(f"r{number}", planned.prompt, planned.output_len, **planned.hints)
            request.number, request.submitted_at = number, float(number)
            requests[number] = request
            queue.add(request)
        for number in rng.sample(sorted(requests), 10):
            queue.remove(requests.pop(number))
        assert len(queue) == 30

        def admit(request: Request, cache: PrefixCache = cache, queue: QueuePolicy = queue) -> None:
            sequence = cache.open(request.prompt, request.namespace, read=request.read, write=request.write)
            sequence.reserve(sequence.num_tokens - sequence.computed_len)
            queue.admitted(request, sequence.num_tokens - sequence.computed_len)
            sequence.advance(sequence.num_tokens - sequence.computed_len)
            sequence.close()

        assert sorted(drained(queue, admit)) == sorted(requests)
        assert len(queue) == 0
        assert queue.head(1e9) is None


@orders
@pytest.mark.parametrize("others", ["nothing", "the same prompts", "other prompts"])
def test_what_other_namespaces_cache_never_shows_in_the_order(policy, step, others):
    """In a pool with room for all: who may be evicted is another matter."""

    def order(others: str) -> list[int]:
        service = Service(policy, step, seed=3, num_pages=4_000)
        traffic = random_traffic(random.Random(3), 25)
        service.loop.warm(ids(1000, 20))
        for number, planned in enumerate(traffic):
            for namespace in ("stranger", b"tenant", ("tenant", "adapter")):
                if others != "nothing":
                    prompt = planned.prompt if others == "the same prompts" else ids(5000 + number, 40)
                    sequence = service.loop.cache.open(prompt, namespace)
                    sequence.reserve(len(prompt))
                    sequence.advance(sequence.num_tokens - sequence.computed_len)
                    sequence.close()
        service.serve(traffic)
        return service.first_admissions()

    assert order(others) == order("nothing")


@orders
def test_asking_leaves_the_cache_as_it_was(policy, step):
    loop = Loop(60, 4, policy=policy, priority_step=step, max_running=1)
    loop.warm(ids(1000, 24))
    loop.submit("holder", ids(0, 4), 12)
    loop.step()
    for number, planned in enumerate(random_traffic(random.Random(0), 20)):
        loop.submit(f"r{number}", planned.prompt, planned.output_len, **planned.hints)
    before = (loop.cache.stats, loop.cache.snapshot())
    for now in range(100, 110):
        assert loop.scheduler._roster.line._queue.head(float(now)) is not None
    assert (loop.cache.stats, loop.cache.snapshot()) == before


@orders
def test_whoever_is_alone_is_next(policy, step):
    loop = Loop(60, 4, policy=policy, priority_step=step)
    request = loop.submit("alone", ids(0, 9), 2, priority=1, client="c")
    assert loop.scheduler._roster.line._queue.head(1.0) is request
    loop.run()
    assert loop.scheduler._roster.line._queue.head(2.0) is None
