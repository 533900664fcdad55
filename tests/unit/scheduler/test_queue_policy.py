import random

import pytest

from scheduler import QUEUE_POLICIES, Request, RequestState
from scheduler.planner import StepPlanner
from tests.unit.scheduler.loop import Loop, ids


def rank(loop: Loop, request: Request) -> tuple[int, int]:
    """Longest match first, ties by number, by asking the cache anew."""
    if not request.read:
        return 0, request.number
    return -loop.cache.peek(request.prompt, request.namespace).matched_len, request.number


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
def test_every_policy_serves_everybody_once(policy):
    loop = Loop(30, 4, policy=policy, token_budget=16, max_running=3)
    requests = [loop.submit(f"r{n}", ids(100 * (n % 3), 6 + n % 7), 1 + n % 4) for n in range(30)]
    loop.run()
    assert all(len(request.output) == request.max_new_tokens for request in requests)
    assert loop.scheduler.num_waiting == 0


@pytest.mark.parametrize("policy", sorted(QUEUE_POLICIES))
def test_an_aborted_request_is_never_admitted(policy):
    loop = Loop(30, 4, policy=policy, max_running=1)
    requests = [loop.submit(f"r{n}", ids(100 * (n % 3), 9), 2) for n in range(9)]
    for number in (0, 4, 8):
        loop.abort(f"r{number}")
    loop.run()
    assert [bool(request.output) for request in requests] == [n not in (0, 4, 8) for n in range(9)]


def test_fcfs_admits_by_number_whatever_is_cached():
    loop = Loop(64, 4, policy="fcfs", max_running=1)
    loop.warm(ids(500, 20))
    requests = [loop.submit("cold", ids(0, 9), 1), loop.submit("warm", ids(500, 21), 1)]
    loop.run()
    assert requests[0].first_scheduled_at < requests[1].first_scheduled_at


def test_lpm_admits_the_longest_match_first():
    loop = Loop(64, 4, policy="lpm", max_running=1)
    loop.warm(ids(500, 20))
    prompts = {"cold": ids(0, 9), "half": [*ids(500, 8), 1], "warm": ids(500, 21)}
    requests = {name: loop.submit(name, prompt, 1) for name, prompt in prompts.items()}
    loop.run()
    order = sorted(requests, key=lambda name: requests[name].first_scheduled_at)
    assert order == ["warm", "half", "cold"]


def test_lpm_breaks_ties_by_number():
    loop = Loop(64, 4, policy="lpm", max_running=1)
    requests = [loop.submit(f"r{n}", ids(100 * n, 9), 1) for n in range(5)]
    loop.run()
    times = [request.first_scheduled_at for request in requests]
    assert times == sorted(times)


def test_lpm_does_not_count_a_prefix_that_the_request_may_not_read():
    loop = Loop(64, 4, policy="lpm", max_running=1)
    loop.warm(ids(500, 20))
    blind = loop.submit("blind", ids(500, 21), 1, read=False)
    seeing = loop.submit("seeing", [*ids(500, 4), 7], 1)
    loop.run()
    assert seeing.first_scheduled_at < blind.first_scheduled_at


def test_lpm_does_not_count_what_another_namespace_has_cached():
    loop = Loop(64, 4, policy="lpm", max_running=1)
    loop.warm(ids(500, 20))
    other = loop.submit("other", ids(500, 21), 1, namespace="other")
    here = loop.submit("here", [*ids(500, 4), 7], 1)
    loop.run()
    assert here.first_scheduled_at < other.first_scheduled_at


def test_lpm_looking_leaves_the_cache_as_it_was():
    loop = Loop(8, 4, policy="lpm", max_running=1)
    loop.warm(ids(500, 12))
    loop.submit("holder", ids(0, 4), 12)
    loop.step()
    for n in range(5):
        loop.submit(f"r{n}", [*ids(500, 5 + n), 7], 20)
    before = (loop.cache.stats, loop.cache.snapshot())
    loop.scheduler._roster.line.candidate(loop.now, num_running=1, num_ended=0)
    assert (loop.cache.stats, loop.cache.snapshot()) == before


@pytest.mark.parametrize("seed", range(12))
def test_lpm_order_is_that_of_matching_everybody_anew(seed):
    rng = random.Random(seed)
    page_size = rng.choice([1, 2, 4])
    settings = {"policy": "lpm", "max_running": 1 + seed % 3, "share_in_flight": False}
    loop = Loop(rng.randrange(24, 60), page_size, **settings)
    waiting: list[Request] = []
    number = 0
    real, num_tries = StepPlanner._try_admit, []

    def told(self, request, draft, now):
        if request.state is RequestState.WAITING:
            num_tries.append(1)
            assert request is min(waiting, key=lambda each: rank(loop, each))
        admitted = real(self, request, draft, now)
        if admitted and request in waiting:
            waiting.remove(request)
        return admitted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StepPlanner, "_try_admit", told)
        for _ in range(150):
            chance = rng.random()
            if chance < 0.45:
                prefix = ids(1000 * rng.randrange(3), rng.randrange(1, 12))
                own = ids(10_000 + 100 * number, rng.randrange(4))
                space = rng.choice([None, None, "other"])
                name, number = f"r{number}", number + 1
                hints = {"namespace": space, "read": rng.random() < 0.9, "write": rng.random() < 0.9}
                waiting.append(loop.submit(name, prefix + own, rng.randrange(1, 5), **hints))
            elif chance < 0.5 and waiting:
                victim = waiting.pop(rng.randrange(len(waiting)))
                loop.abort(victim.request_id)
            else:
                loop.step()
        loop.run()
    assert not waiting
    assert len(num_tries) > 20
