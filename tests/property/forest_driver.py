"""Random verbs on a cache and on a queue in every order at once; all of it compared by brute force."""

import random
from collections.abc import Callable

from radixcache import CacheConfig, OutOfPages, PrefixCache, check
from radixcache.namespace import namespace_key
from scheduler import QUEUE_POLICIES, PolicyOptions, Request, RequestState
from scheduler.leaders import Leaders
from scheduler.policies.base import ColumnPolicy, ForestPolicy
from tests.property.forest_checker import check_forest, check_holds
from tests.property.naive_queue import NAIVE, NaiveFair, NaiveKLPM, Runner, waiters_of

NAMESPACES = (None, None, "tenant")
CLIENTS = (None, "a", "b")
ALPHABET = (1, 2, 3)
MOST_PAGES = 6
VERBS = (
    *("submit",) * 5,
    *("admit",) * 3,
    *("compute",) * 5,
    *("evict",) * 2,
    *("end",) * 2,
    "leave",
    "intrude",
    "retire",
    "reset",
)


class QueuesUnderTest:
    """One cache, every order over the same waiting requests, and those that were admitted."""

    def __init__(
        self,
        page_size: int,
        num_pages: int,
        eviction: str,
        options: PolicyOptions,
        few: int = 256,
        listed: int = 24,
    ) -> None:
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size, eviction=eviction))
        self.page_size = page_size
        self.policies: dict[str, ForestPolicy] = {}
        self.leaders: dict[str, Leaders] = {}
        for name, make in QUEUE_POLICIES.items():
            policy = make(self.cache, options)
            assert isinstance(policy, ForestPolicy)
            self.policies[name] = policy
            self.leaders[name] = Leaders(self.cache, policy)
        for policy in self.policies.values():
            if isinstance(policy, ColumnPolicy):
                policy._columns._few = few
                policy._shortlist.size = listed
        self.k_lpm, self.fair = NaiveKLPM(options), NaiveFair(options)
        self.waiting: dict[int, Request] = {}
        self.runners: dict[int, Runner] = {}
        self.num_requests = 0
        self.now = 0.0
        self.seen: set[str] = set()
        self._verbs: dict[str, Callable[[random.Random], None]] = {
            "submit": self.submit,
            "admit": self.admit,
            "compute": self.compute,
            "evict": lambda rng: self.note("evicted", self.cache.evict(rng.randrange(1, 5))),
            "end": self.end,
            "leave": self.leave,
            "intrude": self.intrude,
            "retire": self.retire,
            "reset": self.reset,
        }

    def run(self, verb: str, salt: int) -> None:
        self.now += 1.0
        self._verbs[verb](random.Random(salt))
        if salt % 4:
            self.check()

    def note(self, what: str, happened: object) -> None:
        if happened:
            self.seen.add(what)

    # Verbs

    def prompt(self, rng: random.Random) -> list[int]:
        """Pages of one repeated token, so that prompts part at page boundaries and within pages."""
        known = [*self.waiting.values(), *(runner.request for runner in self.runners.values())]
        tokens: list[int] = []
        if known and rng.random() < 0.5:
            other = list(rng.choice(known).prompt)
            tokens = other[: rng.randrange(len(other) + 1)]
        for _ in range(rng.randrange(MOST_PAGES)):
            tokens += [rng.choice(ALPHABET)] * self.page_size
        tokens = tokens[: MOST_PAGES * self.page_size]
        return [*tokens, rng.choice(ALPHABET)] if rng.random() < 0.6 or not tokens else tokens

    def request(self, rng: random.Random) -> Request:
        request = Request.of(
            f"r{self.num_requests}",
            self.prompt(rng),
            1,
            namespace=rng.choice(NAMESPACES),
            read=rng.random() < 0.9,
            write=rng.random() < 0.9,
            client=rng.choice(CLIENTS),
        )
        request.number, request.submitted_at = self.num_requests, self.now
        request.enter(RequestState.WAITING)
        self.num_requests += 1
        return request

    def submit(self, rng: random.Random) -> None:
        request = self.request(rng)
        if request.client not in {other.client for other in self.waiting.values()}:
            self.fair.begins_to_wait(request.client)
        self.waiting[request.number] = request
        for policy in self.policies.values():
            policy.add(request)

    def leave(self, rng: random.Random) -> None:
        if self.waiting:
            request = self.waiting.pop(rng.choice(sorted(self.waiting)))
            for policy in self.policies.values():
                policy.remove(request)

    def admit(self, rng: random.Random) -> None:
        """The first of some order, or anybody: bounded waiting and priorities may take anybody."""
        if not self.waiting:
            return
        order = rng.choice([*self.policies, "anybody"])
        request = self.policies[order].head(self.now) if order != "anybody" else None
        if request is None:
            request = self.waiting[rng.choice(sorted(self.waiting))]
        if not self.start(request, rng):
            return
        del self.waiting[request.number]
        assert request.sequence is not None
        extend_len = len(request.prompt) - request.sequence.computed_len
        for policy in self.policies.values():
            policy.admitted(request, extend_len)
        self.k_lpm.admitted()
        self.fair.charge(request.client, extend_len)
        self.lead(request)

    def start(self, request: Request, rng: random.Random) -> bool:
        sequence = self.cache.open(request.prompt, request.namespace, read=request.read, write=request.write)
        try:
            sequence.reserve(rng.randrange(1, len(request.prompt) + 1))
        except OutOfPages:
            sequence.abort()
            self.note("out of pages", True)
            return False
        request.sequence = sequence
        self.runners[request.number] = Runner(request)
        return True

    def lead(self, request: Request) -> None:
        for leaders in self.leaders.values():
            leaders.follow(request)

    def compute(self, rng: random.Random) -> None:
        """One chunk of a running request; beyond the prompt, output."""
        if not self.runners:
            return
        request = self.runners[rng.choice(sorted(self.runners))].request
        sequence = request.sequence
        assert sequence is not None
        if sequence.computed_len == sequence.num_tokens:
            sequence.append([rng.choice(ALPHABET)])
            for policy in self.policies.values():
                policy.generated(request, 1)
            self.fair.charge(request.client, 2.0)
        chunk = min(rng.randrange(1, 3 * self.page_size + 1), sequence.num_tokens - sequence.computed_len)
        try:
            sequence.reserve(chunk)
        except OutOfPages:
            self.note("out of pages", True)
            return
        sequence.advance(chunk)
        sequence.publish()
        self.lead(request)

    def end(self, rng: random.Random) -> None:
        if not self.runners:
            return
        request = self.runners.pop(rng.choice(sorted(self.runners))).request
        assert request.sequence is not None
        (request.sequence.close if rng.random() < 0.5 else request.sequence.abort)()
        for leaders in self.leaders.values():
            leaders.drop(request)

    def intrude(self, rng: random.Random) -> None:
        """Somebody beside the queue computes and publishes a prompt at once."""
        prompt = self.prompt(rng)
        sequence = self.cache.open(prompt, rng.choice(NAMESPACES))
        try:
            sequence.reserve(len(prompt))
        except OutOfPages:
            sequence.abort()
            return
        sequence.advance(sequence.num_tokens - sequence.computed_len)
        sequence.close()

    def retire(self, rng: random.Random) -> None:
        if rng.random() < 0.5:
            return
        namespace = rng.choice(NAMESPACES)
        self.cache.retire(namespace)
        for runner in self.runners.values():
            if namespace_key(runner.request.namespace) == namespace_key(namespace):
                runner.retired = True
                self.note("retired under a leader", True)

    def reset(self, rng: random.Random) -> None:
        if not self.runners:
            self.note("reset", self.waiting)
            self.cache.reset()

    # What must hold

    def check(self) -> None:
        check(self.cache)
        waiters = waiters_of(self.cache, self.waiting.values(), self.runners.values())
        self.note("held", any(waiter.is_held for waiter in waiters))
        self.note("half a match", any(0 < waiter.match < len(waiter.usable) for waiter in waiters))
        firsts = {name: first(waiters, self.now) for name, first in NAIVE.items()}
        firsts["k-lpm"] = self.k_lpm.first(waiters)
        firsts["fair"] = self.fair.first(waiters)
        in_flight = [runner.page_in_flight(self.page_size) for runner in self.runners.values()]
        for name, policy in self.policies.items():
            check_forest(policy, self.cache)
            assert len(policy) == len(waiters)
            for waiter in waiters:
                assert policy.forest.matched_pages(waiter.request) * self.page_size == waiter.match
            led = policy.forest._anchors._in_flight.values()
            assert sum(sum(pages.values()) for pages in led) == sum(page is not None for page in in_flight)
            check_holds(policy.forest, (page for _, page in self.leaders[name]._led.values()))
            assert policy.head(self.now) is firsts[name], name
        assert set(firsts) == set(self.policies)

    def drain(self) -> None:
        """Everybody leaves: nothing may stay behind."""
        rng = random.Random(0)
        while self.waiting:
            self.leave(rng)
        while self.runners:
            self.end(rng)
        self.check()
        for policy in self.policies.values():
            anchors = policy.forest._anchors
            left = (anchors.roots, anchors._at_page, anchors._in_flight, policy.forest._node_of)
            assert not any(left)
            assert not anchors._is_end.any()
