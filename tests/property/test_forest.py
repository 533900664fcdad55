import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixcache import EVICTION_POLICIES
from scheduler import PolicyOptions
from tests.property.forest_driver import VERBS, QueuesUnderTest

options = st.builds(
    PolicyOptions, k=st.integers(1, 4), quantum=st.sampled_from([1, 3, 16]), output_weight=st.just(2.0)
)
queues = st.builds(
    QueuesUnderTest,
    st.sampled_from([1, 2, 4]),
    st.integers(6, 24),
    st.sampled_from(sorted(EVICTION_POLICIES)),
    options,
    st.sampled_from([0, 256]),
    st.sampled_from([1, 2, 24]),
)
steps = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 2**16)), min_size=10, max_size=80)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(queues, steps)
def test_every_order_is_what_matching_everybody_anew_gives(under_test, steps):
    for verb, salt in steps:
        under_test.run(verb, salt)
    under_test.drain()


def play(seed: int, num_steps: int) -> set[str]:
    rng = random.Random(seed)
    under_test = QueuesUnderTest(
        rng.choice([1, 2, 4]),
        rng.randrange(6, 25),
        rng.choice(sorted(EVICTION_POLICIES)),
        PolicyOptions(k=rng.randrange(1, 5), quantum=rng.choice([1, 3, 16])),
        few=rng.choice([0, 256]),
        listed=rng.choice([1, 2, 24]),
    )
    for _ in range(num_steps):
        under_test.run(rng.choice(VERBS), rng.randrange(2**32))
    under_test.drain()
    return under_test.seen


def test_longer_runs_meet_everything_that_can_happen():
    seen = set().union(*(play(seed, 120) for seed in range(30)))
    assert seen >= {"evicted", "held", "half a match", "out of pages", "retired under a leader", "reset"}


@pytest.mark.soak
def test_long_runs(request):
    for seed in range(2_000):
        play(seed, 300)
