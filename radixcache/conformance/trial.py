"""One engine in one scenario, everything checked after every verb."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from radixcache.cache import PrefixCache
from radixcache.config import CacheConfig
from radixcache.conformance.model import ConformanceFailure, ToyModel
from radixcache.invariants import check
from radixcache.namespace import Namespace

_MAX_STEPS = 10_000


class Engine(Protocol):
    """What an engine shows to the suite: its own request handling, over the suite's cache and model."""

    def submit(
        self, request_id: str, prompt: Sequence[int], max_new_tokens: int, namespace: Namespace
    ) -> None:
        """Take a request; it ends after exactly `max_new_tokens` tokens."""
        ...

    def step(self) -> None:
        """Run one step, prefill and decode of whatever the engine chooses."""
        ...

    def abort(self, request_id: str) -> None:
        """End a request in whatever state it is."""
        ...

    def preempt(self, request_id: str) -> None:
        """Throw a running request back to waiting; raises `NotImplementedError` if the engine never does."""
        ...

    def outputs(self) -> Mapping[str, Sequence[int]]:
        """Output of every request that finished."""
        ...

    def is_idle(self) -> bool:
        """Whether no request waits or runs."""
        ...


MakeEngine: TypeAlias = Callable[[PrefixCache, ToyModel], Engine]


class Trial:
    """One engine in one scenario: forwards verbs, and checks after each.

    Args:
        make_engine: Makes the engine.
        config: Settings of the cache it gets.
    """

    def __init__(self, make_engine: MakeEngine, config: CacheConfig) -> None:
        self.cache = PrefixCache(config)
        self._engine = make_engine(self.cache, ToyModel(self.cache))
        self._expected: dict[str, list[int]] = {}
        self.num_steps = 0

    def submit(
        self, request_id: str, prompt: Sequence[int], max_new_tokens: int, namespace: Namespace = None
    ) -> None:
        """Submit, and expect the output it must have."""
        self._engine.submit(request_id, prompt, max_new_tokens, namespace)
        self._expected[request_id] = ToyModel.expected_output(prompt, max_new_tokens)
        check(self.cache)

    def step(self, num_steps: int = 1) -> None:
        """So many steps, or until the engine is idle."""
        for _ in range(num_steps):
            if self._engine.is_idle():
                return
            self._engine.step()
            self.num_steps += 1
            check(self.cache)

    def abort(self, request_id: str) -> None:
        """Abort; no output is expected any more."""
        self._engine.abort(request_id)
        if request_id not in self._engine.outputs():
            del self._expected[request_id]
        check(self.cache)

    def preempt(self, request_id: str) -> None:
        """Preempt a request that runs."""
        self._engine.preempt(request_id)
        check(self.cache)

    def output(self, request_id: str) -> list[int]:
        """Output of a request that finished."""
        return list(self._engine.outputs()[request_id])

    def drain(self) -> None:
        """Step until idle; then every output is right, and nothing is held any more."""
        self.step(_MAX_STEPS)
        if not self._engine.is_idle():
            raise ConformanceFailure(f"still busy after {_MAX_STEPS} steps")
        outputs = self._engine.outputs()
        for request_id, expected in self._expected.items():
            got = list(outputs.get(request_id, []))
            if got != expected:
                raise ConformanceFailure(f"request {request_id!r} generated {got}, must be {expected}")
        pages, live = self.cache.pages, self.cache.stats.live_sequences
        if live or pages.private or pages.locked:
            raise ConformanceFailure(f"idle, but {live} sequences live and the pages are {pages}")


Scenario: TypeAlias = Callable[[MakeEngine, int], None]
"""Given an engine and a page size, raises `ConformanceFailure`."""
