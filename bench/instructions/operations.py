"""What is counted. To add something, write a function that yields operations, and name it in `SETUPS`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench.scenarios.cached_prompt import CachedPrompt
from bench.scenarios.deep_path import DeepPath
from bench.scenarios.hot_prefix import HotPrefix
from bench.scenarios.leaf_churn import LeafChurn
from bench.scenarios.life import serve
from bench.scenarios.steady_dispatch import SteadyDispatch
from bench.workloads.material import random_ids
from radixcache import Tokens

PAGE_SIZE = 16
SEED = 0
WARM_UP = 100
CALLS = 100
HOLDERS = 1_000
OUTPUT_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to count.

    Attributes:
        name: Unique among all.
        call: Is made `WARM_UP` times, so that the interpreter has adapted, then `CALLS` times to be counted.
    """

    name: str
    call: Callable[[], object]


Setup = Callable[[], Iterator[Operation]]
"""Builds a scenario and yields what to do with it, in turn; puts back what the calls took, and verifies."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A promise about complexity: what an operation costs at two sizes.

    Attributes:
        small: Name of the operation at the small size.
        large: Name of the operation at the large size.
        factor: How much more the large one may cost at most.
    """

    small: str
    large: str
    factor: float


def cached_prompt(num_tokens: int) -> Iterator[Operation]:
    """A warm prompt on one edge."""
    scenario = CachedPrompt(num_tokens, PAGE_SIZE, SEED)
    yield Operation(f"peek, {num_tokens:,} tokens", scenario.peek)
    yield Operation(f"open + close, {num_tokens:,} tokens", scenario.open_and_close)
    scenario.verify()


def deep_path(num_nodes: int) -> Iterator[Operation]:
    """A warm prompt on many edges."""
    scenario = DeepPath(num_nodes, PAGE_SIZE, SEED)
    yield Operation(f"peek, depth {num_nodes}", scenario.peek)
    yield Operation(f"open + close, depth {num_nodes}", scenario.open_and_close)
    scenario.verify()


def hot_prefix(num_nodes: int) -> Iterator[Operation]:
    """A prefix that many hold."""
    scenario = HotPrefix(num_nodes, HOLDERS, PAGE_SIZE, SEED)
    yield Operation(f"lock + unlock, depth {num_nodes}", scenario.lock_and_unlock)
    scenario.verify()


def leaves(num_leaves: int) -> Iterator[Operation]:
    """A full pool: pages go one by one, and short requests come."""
    scenario = LeafChurn(num_leaves, PAGE_SIZE, SEED)
    cache = scenario.cache
    yield Operation(f"evict a page, {num_leaves:,} leaves", scenario.evict_one)
    for _ in range(WARM_UP + CALLS):
        serve(cache, scenario.next_leaf())
    output = Tokens(random_ids(SEED, OUTPUT_TOKENS))
    prompts = iter([scenario.next_leaf() for _ in range(WARM_UP + CALLS)])
    yield Operation(
        f"a request that evicts, {num_leaves:,} leaves", lambda: serve(cache, next(prompts), output)
    )
    cache.evict(2 - cache.pages.free)
    scenario.verify()


def dispatch(num_waiting: int) -> Iterator[Operation]:
    """A scheduler with a queue."""
    scenario = SteadyDispatch("lpm", num_waiting, page_size=PAGE_SIZE, seed=SEED)
    scenario.prepare(WARM_UP + CALLS)
    yield Operation(f"a step that serves one, lpm, {num_waiting:,} waiting", scenario.dispatch)
    scenario.verify()


SETUPS: tuple[Setup, ...] = (
    partial(cached_prompt, 8_192),
    partial(cached_prompt, 131_072),
    partial(deep_path, 64),
    partial(hot_prefix, 1),
    partial(hot_prefix, 64),
    partial(leaves, 1_000),
    partial(leaves, 10_000),
    partial(dispatch, 128),
    partial(dispatch, 1_024),
)

GROWTHS = (
    Growth("lock + unlock, depth 1", "lock + unlock, depth 64", 1.25),
    Growth("evict a page, 1,000 leaves", "evict a page, 10,000 leaves", 1.1),
    Growth("a request that evicts, 1,000 leaves", "a request that evicts, 10,000 leaves", 1.1),
    Growth("a step that serves one, lpm, 128 waiting", "a step that serves one, lpm, 1,024 waiting", 1.1),
)
