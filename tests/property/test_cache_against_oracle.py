import os
import random
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixcache import EVICTION_POLICIES
from radixcache.eviction import EvictionPolicy
from tests.property.driver import Lockstep, Step
from tests.strategies import Close, Reset, Retire, World, random_script, scripts


class MostRecentlyUsed(EvictionPolicy):
    """A user's own policy, as perverse as can be."""

    def can_merge(self, upper, lower):
        return False

    def rank(self, node):
        return -node.stamp


POLICIES = {**{name: name for name in EVICTION_POLICIES}, "own": MostRecentlyUsed}
OPERATIONS = {name: 100_000 if name == "lru" else 25_000 for name in POLICIES}
SCRIPT_LENGTH = 250


def steps_of(seed: int) -> tuple[World, list[Step]]:
    world, script = random_script(seed, SCRIPT_LENGTH)
    rng = random.Random(f"steps {seed}")
    return world, list(salted(script, rng, world))


def salted(script, rng: random.Random, world: World) -> Iterator[Step]:
    for verb in script:
        chance = rng.random()
        if chance < 0.01:
            yield Step(Retire(rng.choice(world.namespaces)), rng.getrandbits(32))
        elif chance < 0.015:
            yield from (Step(Close(-1), rng.getrandbits(32)) for _ in range(8))
            yield Step(Reset(), rng.getrandbits(32))
        yield Step(verb, rng.getrandbits(32))


def run(world: World, steps: list[Step], eviction, seed: int) -> int:
    lockstep = Lockstep(world, eviction=eviction, seed=seed)
    return sum(lockstep.run(step) for step in steps)


def run_seed(seed: int, eviction) -> int:
    world, steps = steps_of(seed)
    try:
        return run(world, steps, eviction, seed)
    except Exception as error:
        smallest = minimal(world, steps, eviction, seed)
        script = "\n".join(f"    {step!r}," for step in smallest)
        raise AssertionError(
            f"seed {seed}, policy {eviction}: {type(error).__name__}: {error}\n{world}\n"
            f"smallest script found, for run(world, steps, {eviction!r}, {seed}):\n{script}"
        ) from error


def minimal(world: World, steps: list[Step], eviction, seed: int) -> list[Step]:
    """Cut the script while it still fails: its tail, then ever smaller pieces."""

    def fails(candidate: list[Step]) -> bool:
        try:
            run(world, candidate, eviction, seed)
        except Exception:  # noqa: BLE001  (any failure counts)
            return True
        return False

    piece = len(steps) // 2
    while piece:
        start = len(steps)
        while start > 0:
            start -= piece
            candidate = steps[: max(start, 0)] + steps[start + piece :]
            if fails(candidate):
                steps = candidate
        piece //= 2
    return steps


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("name", POLICIES)
def test_random_scripts_agree_with_the_oracle_after_every_verb(name: str, part: int) -> None:
    seed, done = part * 1_000_000, 0
    while done < OPERATIONS[name] // 5:
        done += run_seed(seed, POLICIES[name])
        seed += 1


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts(), st.integers(0, 2**16), st.sampled_from(sorted(POLICIES)))
def test_drawn_scripts_agree_with_the_oracle_after_every_verb(drawn, seed: int, name: str) -> None:
    world, script = drawn
    run(world, list(salted(script, random.Random(seed), world)), POLICIES[name], seed)
