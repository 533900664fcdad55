"""Seeded scripts for the driver, and the smallest one that still fails."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from radixcache import EVICTION_POLICIES, EvictionPolicy
from radixcache.eviction import PolicyFactory
from radixcache.eviction.base import Rank
from radixcache.node import Node
from tests.property.driver import Lockstep, Step
from tests.strategies import (
    Advance,
    Append,
    Close,
    Fork,
    Publish,
    Reserve,
    Reset,
    Retire,
    Verb,
    World,
    random_script,
)

SCRIPT_LENGTH = 250


class MostRecentlyUsed(EvictionPolicy):
    """A user's own policy, as perverse as can be."""

    def can_merge(self, upper: Node, lower: Node) -> bool:
        return False

    def rank(self, node: Node) -> Rank:
        return -node.stamp


POLICIES: dict[str, str | PolicyFactory] = {
    **{name: name for name in EVICTION_POLICIES},
    "own": MostRecentlyUsed,
}


def steps_of(seed: int) -> tuple[World, list[Step]]:
    world, verbs = random_script(seed, SCRIPT_LENGTH)
    return world, list(salted(verbs, random.Random(f"steps {seed}"), world))


def salted(verbs: Iterable[Verb], rng: random.Random, world: World) -> Iterator[Step]:
    """Give each verb a seed of its own, and throw in what random verbs seldom add up to."""
    for verb in verbs:
        chance = rng.random()
        added: list[Verb] = [verb]
        if chance < 0.01:
            added = [Retire(rng.choice(world.namespaces)), verb]
        elif chance < 0.015:
            added = [*[Close(-1)] * 8, Reset(), verb]
        elif isinstance(verb, Fork) and chance < 0.5:
            added = [verb, *_parent_goes_on(rng, world)]
        yield from (Step(each, rng.getrandbits(32)) for each in added)


def _parent_goes_on(rng: random.Random, world: World) -> list[Verb]:
    """The parent of the youngest fills the page that the child has not copied yet, and publishes it."""
    answer = tuple(rng.choice(world.alphabet) for _ in range(world.page_size))
    return [Append(-2, answer), Reserve(-2, None), Advance(-2, None), rng.choice((Publish(-2), Close(-2)))]


def run(world: World, steps: Iterable[Step], policy: str, seed: int) -> Lockstep:
    lockstep = Lockstep(world, eviction=POLICIES[policy], seed=seed)
    for step in steps:
        lockstep.run(step)
    return lockstep


def run_seed(seed: int, policy: str) -> Lockstep:
    """Run the script of a seed.

    Raises:
        AssertionError: It failed; shows the seed and the smallest script that fails.
    """
    world, steps = steps_of(seed)
    try:
        return run(world, steps, policy, seed)
    except Exception as error:
        script = "\n".join(f"    {step!r}," for step in _smallest(world, steps, policy, seed))
        raise AssertionError(
            f"seed {seed}, policy {policy!r}: {type(error).__name__}: {error}\n{world}\n"
            f"smallest script found, for run(world, steps, {policy!r}, {seed}):\n{script}"
        ) from error


def _smallest(world: World, steps: list[Step], *how: Any) -> list[Step]:
    """Cut pieces out of the script while it still fails, ever smaller ones, from the end on."""
    piece = len(steps) // 2
    while piece:
        for start in range(len(steps) - piece, -piece, -piece):
            candidate = steps[: max(start, 0)] + steps[start + piece :]
            if _fails(world, candidate, *how):
                steps = candidate
        piece //= 2
    return steps


def _fails(world: World, steps: list[Step], *how: Any) -> bool:
    try:
        run(world, steps, *how)
    except Exception:  # noqa: BLE001  (whatever went wrong, the script is still a failing one)
        return True
    return False
