"""Admission by what outputs were, against knowing them, fearing the worst, and hoping for the best.

Steps until all are done, as a multiple of those when the true lengths are known, and tokens computed again:

    pool of 1,024 pages of 16          design        worst case     one page of headroom
    1,000 mixed requests               1.05   0.1 %  1.87   0.0 %   0.97    8.3 %
    600 growth-dominated requests      1.10   2.3 %  3.12   0.0 %   0.94   40.2 %
"""

import dataclasses
from functools import cache

import pytest

from tests.unit.scheduler.loop import Loop, ids
from tests.unit.scheduler.pressure import Job, Outcome, growing_jobs, mixed_jobs, serve

JOBS = {"mixed": mixed_jobs, "growing": growing_jobs}
NUM_PAGES = 1_024


@cache
def outcome(kind: str, expectation: str, seed: int = 1) -> Outcome:
    return serve(JOBS[kind](seed), NUM_PAGES, expectation, token_budget=2_048)


def slowdown(kind: str, expectation: str, seed: int = 1) -> float:
    return outcome(kind, expectation, seed).num_steps / outcome(kind, "true lengths", seed).num_steps


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", JOBS)
def test_not_knowing_the_lengths_costs_little_time_and_few_tokens(kind, seed):
    assert slowdown(kind, "design", seed) <= 1.35
    assert outcome(kind, "design", seed).recomputed_share <= 0.05


def test_knowing_them_nobody_is_thrown_back():
    assert {outcome(kind, "true lengths").num_preemptions for kind in JOBS} == {0}


def test_reserving_for_the_worst_case_takes_about_twice_as_long_or_more():
    assert slowdown("mixed", "worst case") > 1.7
    assert slowdown("growing", "worst case") > 2.5
    assert outcome("growing", "worst case").recomputed_share == 0


def test_one_page_of_headroom_computes_up_to_two_fifths_again():
    assert outcome("growing", "one page").recomputed_share > 0.3
    assert outcome("mixed", "one page").recomputed_share > 0.05


def test_true_limits_do_as_well_as_true_lengths():
    jobs = [dataclasses.replace(job, limit=job.output_len) for job in mixed_jobs(1)]
    told = serve(jobs, NUM_PAGES, "design", token_budget=2_048)
    assert told.num_steps <= 1.1 * outcome("mixed", "true lengths").num_steps
    assert told.recomputed_share <= 0.05


SPREADS = {
    "all alike": [300] * 500,
    "evenly spread": [1 + number * 600 // 500 for number in range(500)],
    "mostly short, a few very long": [1_200 if number % 10 == 9 else 60 for number in range(500)],
}


@pytest.mark.parametrize("spread", SPREADS)
def test_outputs_of_any_spread_are_foreseen(spread):
    order = [SPREADS[spread][number * 77 % 500] for number in range(500)]
    jobs = [Job(ids(4_096 * number, 30), 1_200, length) for number, length in enumerate(order)]
    known, foreseen = (serve(jobs, NUM_PAGES, how, token_budget=2_048) for how in ("true lengths", "design"))
    assert foreseen.num_steps <= 1.35 * known.num_steps
    assert foreseen.recomputed_share <= 0.05


# Preemptions


def assert_thrown_back_at_most_as_often_as_others_ended(loop: Loop, requests: list) -> None:
    for request in requests:
        assert request.num_preemptions <= len(requests) - 1
    assert {request.state for request in requests} == {"finished"}


@pytest.mark.parametrize("num_pages", range(11, 21))
def test_a_pool_slightly_too_small_for_two_long_requests_finishes_both(num_pages):
    loop = Loop(num_pages, 4)  # each needs 11 pages
    loop.let_expect(1)
    requests = [loop.submit(name, ids(ord(name) * 1_000, 8), 37) for name in "ab"]
    loop.run(max_steps=120)
    assert_thrown_back_at_most_as_often_as_others_ended(loop, requests)
    assert requests[0].num_preemptions == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_request_is_thrown_back_at_most_once_for_each_other_that_ends(seed):
    loop = Loop(30, 4, max_running=8)
    loop.let_expect(1)
    requests = [
        loop.submit(f"r{number}", ids(1_000 * number, 3 + (5 * number + seed) % 11), 10 + 7 * number % 40)
        for number in range(20)
    ]
    ended_while_alive = dict.fromkeys(requests, 0)
    for _ in range(3_000):
        if loop.scheduler.is_idle:
            break
        before = [request for request in requests if request.state != "finished"]
        loop.step()
        num_ended = sum(request.state == "finished" for request in before)
        for request in before:
            ended_while_alive[request] += num_ended
            assert request.num_preemptions <= 1 + ended_while_alive[request]
    assert_thrown_back_at_most_as_often_as_others_ended(loop, requests)
    assert sum(request.num_preemptions for request in requests) > 5
