import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixcache import MissReason
from tests.property.scripts import POLICIES, run, run_seed, salted
from tests.strategies import scripts

PARTS = 5
OPERATIONS = {name: 90_000 if name == "lru" else 25_000 for name in POLICIES}
"""Verbs for each policy, 315,000 in all; everything is compared after each."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("policy", POLICIES)
def test_random_scripts_agree_with_the_oracle_after_every_verb(policy: str, part: int) -> None:
    seed, done = part * 1_000_000, 0
    while done < OPERATIONS[policy] // PARTS:
        done += run_seed(seed, policy).num_verbs
        seed += 1


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(scripts(), st.integers(0, 2**16), st.sampled_from(sorted(POLICIES)))
def test_drawn_scripts_agree_with_the_oracle_after_every_verb(drawn, seed: int, policy: str) -> None:
    world, verbs = drawn
    run(world, salted(verbs, random.Random(seed), world), policy, seed)


def test_scripts_reach_every_corner() -> None:
    counters = (
        "failed_reserves",
        "forks",
        "copied_tokens",
        "duplicate_pages",
        "resumed_lookups",
        "evictions",
    )
    seen = dict.fromkeys(counters, 0)
    corners, reasons = set(), set()
    for seed in range(100):
        lockstep = run_seed(seed, "lru")
        stats = lockstep.cache.stats
        seen = {name: number + getattr(stats, name) for name, number in seen.items()}
        reasons |= {reason for reason, tokens in stats.missed_tokens.items() if tokens}
        corners |= lockstep.corners
    assert min(seen.values()) > 20, seen
    assert reasons == set(MissReason)
    assert corners == {
        "offer taken",
        "offer dropped",
        "copy source orphaned",
        "copy source published",
        "retired in use",
    }


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_soak(request: pytest.FixtureRequest) -> None:
    end = time.monotonic() + request.config.getoption("--soak-seconds")
    seed = time.time_ns() // 1000
    while time.monotonic() < end:
        for policy in POLICIES:
            run_seed(seed, policy)
        seed += 1
