"""Longest match first on a real trace, at a queue of 300: every dispatch is that of brute force."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from radixcache import CacheConfig, PrefixCache, Tokens
from runtime.workload import load_trace, prompt_of
from scheduler import PolicyOptions, Request
from scheduler.leaders import Leaders
from scheduler.policies import RematchLPM
from scheduler.policies.lpm import LPM

QUEUE = 300
NUM_RUNNING = 4
PAGE_SIZE = 512
CHUNK = 8 * PAGE_SIZE
NUM_PAGES = 1_000_000 // PAGE_SIZE

pytestmark = pytest.mark.shared_data


def requests_of(shared: Path) -> Iterator[Request]:
    workload = load_trace(shared / "data" / "traces" / "mooncake_conversation.jsonl")
    for number, session in enumerate(workload.sessions):
        prompt = Tokens.trusted(prompt_of(session.turns[0], {}).tobytes())
        request = Request(f"r{number}", prompt, 1)
        request.number, request.submitted_at = number, 0.0
        yield request


class Dispatcher:
    """Keeps the queue full; admits one request, then lets each that runs compute a chunk."""

    def __init__(self, *, share_in_flight: bool) -> None:
        self.cache = PrefixCache(CacheConfig(num_pages=NUM_PAGES, page_size=PAGE_SIZE))
        self.lpm = LPM(self.cache, PolicyOptions())
        self.rematch = RematchLPM(self.cache, PolicyOptions())
        self.leaders = Leaders(self.cache, self.lpm) if share_in_flight else None
        self.waiting: dict[int, Request] = {}
        self.running: deque[Request] = deque()
        self.num_held = 0

    def serve(self, requests: Iterable[Request], first: Callable[[], Request | None]) -> list[int]:
        """Numbers in the order of their admission; `first` is what each has to be."""
        order: list[int] = []
        coming = iter(requests)
        while True:
            for request in islice(coming, QUEUE - len(self.waiting)):
                self.waiting[request.number] = request
                self.lpm.add(request)
                self.rematch.add(request)
            if not self.waiting and not self.running:
                return order
            if len(self.running) < NUM_RUNNING:
                request = self.lpm.head(0.0)
                assert request is first()
                if request is not None:
                    order.append(request.number)
                    self.admit(request)
            for _ in range(len(self.running)):
                self.compute(self.running.popleft())

    def admit(self, request: Request) -> None:
        del self.waiting[request.number]
        request.sequence = self.cache.open(request.prompt)
        request.sequence.reserve(request.sequence.num_tokens - request.sequence.computed_len)
        self.lpm.admitted(request, 0)
        self.rematch.admitted(request, 0)
        self.running.append(request)
        if self.leaders is not None:
            self.leaders.follow(request)

    def compute(self, request: Request) -> None:
        sequence = request.sequence
        assert sequence is not None
        sequence.advance(min(CHUNK, sequence.num_tokens - sequence.computed_len))
        sequence.publish()
        if sequence.computed_len < sequence.num_tokens:
            self.running.append(request)
            if self.leaders is not None:
                self.leaders.follow(request)
            return
        sequence.close()
        if self.leaders is not None:
            self.leaders.drop(request)

    def first_not_held(self) -> Request | None:
        """Longest match of those who need no page that a running request publishes next."""
        in_flight = set()
        for request in self.running:
            sequence = request.sequence
            assert sequence is not None
            end = sequence.published_len + PAGE_SIZE
            if end <= len(request.prompt):
                in_flight.add(request.prompt.data[: 4 * end])
        lengths = {len(prefix) for prefix in in_flight}
        best, best_match = None, -1
        for request in self.waiting.values():
            match = self.cache.peek(request.prompt).matched_len
            end = match + PAGE_SIZE
            needs_a_page = end < len(request.prompt)
            if needs_a_page and 4 * end in lengths and request.prompt.data[: 4 * end] in in_flight:
                self.num_held += 1
            elif match > best_match:
                best, best_match = request, match
        return best


def check_order(requests: Iterable[Request]) -> None:
    dispatcher = Dispatcher(share_in_flight=False)
    order = dispatcher.serve(requests, lambda: dispatcher.rematch.head(0.0))
    assert sorted(order) == list(range(len(order)))
    assert order != sorted(order)
    assert dispatcher.cache.stats.evictions


def test_every_dispatch_is_that_of_matching_everybody_anew(shared: Path) -> None:
    check_order(islice(requests_of(shared), 3_000))


@pytest.mark.soak
def test_every_dispatch_of_the_whole_trace(shared: Path) -> None:
    check_order(requests_of(shared))


def test_every_dispatch_passes_over_those_who_wait_for_a_page_in_flight(shared: Path) -> None:
    dispatcher = Dispatcher(share_in_flight=True)
    order = dispatcher.serve(islice(requests_of(shared), 1_500), dispatcher.first_not_held)
    assert sorted(order) == list(range(1_500))
    assert dispatcher.num_held > 300
