import random

import pytest

from scheduler import PolicyOptions, RequestState
from tests.unit.scheduler.loop import Loop, ids


def k_lpm(k: int, **settings: object) -> Loop:
    options = PolicyOptions(k=k)
    return Loop(
        200, 4, policy="k-lpm", policy_options=options, max_overtakes=10**9, max_running=1, **settings
    )


@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(4))
def test_a_request_that_finds_n_older_ones_waits_for_at_most_k_times_n_plus_one_admissions(k, seed):
    rng = random.Random(seed)
    loop = k_lpm(k)
    loop.warm(ids(0, 40))
    waiting, num_older, at_arrival, order, worst = {}, {}, {}, [], 0.0
    for number in range(150):
        if number < 100:
            for each in range(rng.randrange(3)):
                warm = rng.random() < 0.8
                prompt = [*ids(0, 40), each] if warm else ids(1000 + 50 * number + 20 * each, 17)
                request = loop.submit(f"r{number}.{each}", prompt, 1)
                num_older[request], at_arrival[request] = len(waiting), len(order)
                waiting[request] = None
        loop.step()
        for request in [each for each in waiting if each.state is not RequestState.WAITING]:
            order.append(request)
            del waiting[request]
            waited = len(order) - at_arrival[request]
            assert waited <= k * (num_older[request] + 1)
            worst = max(worst, waited / (k * (num_older[request] + 1)))
    assert worst > 0.3


def test_one_is_first_come_first_served():
    loop = k_lpm(1)
    loop.warm(ids(0, 40))
    cold, warm = loop.submit("cold", ids(500, 9), 1), loop.submit("warm", ids(0, 41), 1)
    loop.run()
    assert cold.first_scheduled_at < warm.first_scheduled_at


def test_the_oldest_comes_once_in_k_and_the_longest_matches_between():
    loop = k_lpm(3)
    loop.warm(ids(0, 40))
    cold = [loop.submit(f"cold{n}", ids(500 + 20 * n, 9), 1) for n in range(3)]
    warm = [loop.submit(f"warm{n}", [*ids(0, 40), n], 1) for n in range(4)]
    loop.run()
    order = sorted([*cold, *warm], key=lambda request: request.first_scheduled_at)
    kinds = [request.request_id[:4] for request in order]
    assert kinds == ["cold", "warm", "warm", "cold", "warm", "warm", "cold"]
