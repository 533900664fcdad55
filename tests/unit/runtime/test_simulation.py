from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from radixcache import NullPrefixCache
from runtime.clock import PS_PER_S
from runtime.result import BASELINE_LABEL, CACHE_LABEL
from runtime.simulation import ClosedLoop, OpenLoop
from runtime.workload import Turn, Workload
from tests.unit.runtime.simulated import (
    BOTH_CACHES,
    FlatDevice,
    by_id,
    follow_up,
    literal,
    simulate,
    simulation,
    turn,
    workload,
)

# A timeline reckoned by hand: a step takes 1 s, and 0.1 s for each token


@pytest.fixture(params=[True, False], ids=["coalesced", "step by step"])
def by_hand(request):
    load = workload((0.0, [turn(0, 10, 3)]), (0.5, [turn(100, 20, 1)]))
    return simulate(load, executor=FlatDevice(), coalesce=request.param)


def test_times_of_two_requests_reckoned_by_hand(by_hand):
    first, second = by_hand.requests
    assert (first.arrival_s, first.first_scheduled_s, first.first_token_s) == (0.0, 0.0, 2.0)
    assert (second.arrival_s, second.first_scheduled_s, second.first_token_s) == (0.5, 2.0, 5.1)
    assert (first.finished_s, second.finished_s) == (6.2, 5.1)


def test_latencies_of_two_requests_reckoned_by_hand(by_hand):
    first, second = by_hand.requests
    assert second.first_scheduled_s - second.arrival_s == 1.5  # queue delay
    assert second.first_token_s - second.arrival_s == pytest.approx(4.6)  # TTFT
    assert (first.finished_s - first.first_token_s) / 2 == pytest.approx(2.1)  # TPOT
    assert first.finished_s - first.arrival_s == 6.2  # E2E


def test_the_run_as_a_whole_reckoned_by_hand(by_hand):
    assert by_hand.makespan_s == 6.2
    assert by_hand.last_arrival_s == 0.5
    assert by_hand.offered_load == 6.2 / 0.5
    assert by_hand.counters["steps"] == 3
    assert by_hand.backlog_at_last_arrival == 1


def test_decodes_reckoned_by_hand():
    run = simulate(workload((0.0, [turn(0, 10, 6)])), executor=FlatDevice())
    assert run.makespan_s == pytest.approx(2.0 + 5 * 1.1)
    assert run.counters["steps"] == 6


def test_an_arrival_within_a_step_waits_for_its_end_but_is_stamped_with_its_own_time():
    load = workload((0.0, [turn(0, 10, 4)]), (2.6, [turn(100, 10, 1)]))
    first, second = simulate(load, executor=FlatDevice()).requests
    assert second.arrival_s == 2.6
    assert second.first_scheduled_s == pytest.approx(3.1)
    assert first.finished_s == pytest.approx(2.0 + 1.1 + 2.1 + 1.1)


def test_time_between_arrivals_passes_without_work():
    run = simulate(workload((5.0, [turn(0, 10)]), (50.0, [turn(0, 10)])), executor=FlatDevice())
    assert [record.first_scheduled_s for record in run.requests] == [5.0, 50.0]
    assert run.makespan_s == pytest.approx(50.0 + 1.2)


def test_what_is_cached_is_not_computed_again():
    load = workload((0.0, [turn(0, 40)]), (100.0, [turn(0, 40)]))
    cached, baseline = (simulate(load, cache=cache, executor=FlatDevice()) for cache in BOTH_CACHES)
    assert [record.matched_tokens for record in cached.requests] == [0, 36]
    assert [record.matched_tokens for record in baseline.requests] == [0, 0]
    assert (cached.makespan_s, baseline.makespan_s) == (pytest.approx(101.4), pytest.approx(105.0))


def test_an_empty_workload_takes_no_time():
    run = simulate(Workload(name="nothing", sessions=()))
    assert (run.requests, run.makespan_s, run.offered_load) == ([], 0.0, 0.0)


def test_runs_are_labelled_by_their_cache():
    load = workload((0.0, [turn(0, 4)]))
    assert simulate(load).label == CACHE_LABEL
    assert simulate(load, cache=NullPrefixCache).label == BASELINE_LABEL


# Sessions


def test_a_second_turn_contains_what_was_really_generated():
    first = turn(0, 10, 7)
    run = simulation(workload((0.0, [first, follow_up(first, 0, 500, 5)])))
    result = run.run()
    records = by_id(result)
    assert records["s0/1"].prompt_tokens == 10 + 7 + 5
    prompt_and_output_with_kv = 10 + 7 - 1
    assert records["s0/1"].matched_tokens == prompt_and_output_with_kv // 4 * 4
    assert records["s0/1"].miss == {"never_seen": 4, "shorter_than_page": 2}


@pytest.mark.parametrize("coalesce", [True, False])
def test_every_turn_of_a_chat_hits_all_but_its_last_question(coalesce):
    turns = [turn(0, 13, 6)]
    for number in range(1, 6):
        turns.append(follow_up(turns[-1], number - 1, 1000 * number, 9, 5 + number))
    turns = [
        Turn(segments=each.segments, output_len=each.output_len, after=each.after, think_s=2.0)
        for each in turns
    ]
    run = simulate(workload((0.0, turns)), coalesce=coalesce)
    known = 0
    for number, record in enumerate(run.requests):
        assert record.matched_tokens == max(0, known - 1) // 4 * 4
        known = record.prompt_tokens + turns[number].output_len
    assert run.requests[-1].matched_tokens > 80


def test_a_turn_comes_its_pause_after_the_answer():
    first = turn(0, 10, 3)
    run = simulate(workload((1.0, [first, follow_up(first, 0, 500, 5, think_s=4.0)])), executor=FlatDevice())
    first_record, second = run.requests
    assert second.arrival_s == pytest.approx(first_record.finished_s + 4.0)


def test_sub_agents_run_beside_each_other_and_are_joined():
    root = turn(0, 20, 4)
    parts = [follow_up(root, 0, 100 * (n + 1), 6, 3 + n) for n in range(3)]
    join = Turn(
        segments=(*root.segments, *[literal(700, 2)], *root.segments),
        output_len=2,
        after=(1, 2, 3),
        think_s=1.0,
    )
    run = simulate(workload((0.0, [root, *parts, join])), executor=FlatDevice())
    records = by_id(run)
    assert len({records[f"s0/{n}"].arrival_s for n in (1, 2, 3)}) == 1
    last_answer = max(records[f"s0/{n}"].finished_s for n in (1, 2, 3))
    assert records["s0/4"].arrival_s == pytest.approx(last_answer + 1.0)
    led = (20 + 4 - 1) // 4 * 4
    followed = led + 4  # the page that the first of the three computed meanwhile
    assert [records[f"s0/{n}"].matched_tokens for n in (1, 2, 3)] == [led, followed, followed]


def test_namespaces_of_turns_are_kept_apart():
    load = workload((0.0, [turn(0, 20)]), (50.0, [turn(0, 20, namespace="b")]), (99.0, [turn(0, 20)]))
    assert [record.matched_tokens for record in simulate(load).requests] == [0, 0, 16]


@pytest.mark.parametrize("users", [1, 2, 3])
def test_never_more_sessions_at_once_than_users(users):
    sessions = []
    for number in range(9):
        first = turn(1000 * number, 10 + number, 2 + number % 4)
        sessions.append((0.0, [first, follow_up(first, 0, 1000 * number + 500, 5, 2, think_s=0.5 * number)]))
    run = simulate(workload(*sessions), ClosedLoop(users), executor=FlatDevice())
    ends: dict[str, float] = {}
    starts: dict[str, float] = {}
    for record in run.requests:
        starts[record.session_id] = min(record.arrival_s, starts.get(record.session_id, 1e9))
        ends[record.session_id] = max(record.finished_s, ends.get(record.session_id, 0.0))
    at_once = [sum(starts[s] <= moment < ends[s] for s in starts) for moment in starts.values()]
    assert max(at_once) == users
    assert len(starts) == 9


def test_users_never_wait_for_the_clock_of_the_trace():
    load = workload(*[(1000.0 * number, [turn(100 * number, 10)]) for number in range(4)])
    run = simulate(load, ClosedLoop(1), executor=FlatDevice())
    assert run.makespan_s == pytest.approx(4 * 2.0)


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_a_rate_scale_moves_the_starts(scale):
    load = workload(*[(20.0 * number, [turn(100 * number, 10)]) for number in range(4)])
    run = simulate(load, OpenLoop(scale), executor=FlatDevice())
    assert [record.arrival_s for record in run.requests] == [20.0 * n / scale for n in range(4)]


def test_records_stand_in_order_of_arrival():
    first = turn(0, 10, 3)
    load = workload(
        (0.0, [first, follow_up(first, 0, 500, 5, think_s=60.0)]),
        *[(10.0 * number, [turn(1000 * number, 9)]) for number in range(1, 9)],
    )
    arrivals = [record.arrival_s for record in simulate(load, executor=FlatDevice()).requests]
    assert arrivals == sorted(arrivals)


# What goes wrong


def test_a_refused_turn_breaks_off_its_followers_and_nobody_else():
    big = turn(0, 100, 1)
    load = workload(
        (0.0, [big, follow_up(big, 0, 500, 2), turn(700, 3, 1, after=(1,))]), (1.0, [turn(900, 8, 2)])
    )
    run = simulate(load, num_pages=10)
    records = by_id(run)
    assert set(records) == {"s0/0", "s1/0"}
    assert (records["s0/0"].status, records["s1/0"].status) == ("refused", "finished")
    assert "needs KV for 100 tokens, the pool holds at most 40" in records["s0/0"].error
    assert records["s0/0"].first_scheduled_s is None
    assert records["s0/0"].miss == {}
    assert run.counters["turns never sent"] == 2


def test_refused_parts_lose_their_join_once_and_the_user_goes_on():
    parts = [turn(0, 100), turn(200, 100), turn(400, 8)]
    join = turn(600, 4, after=(0, 1, 2))
    load = workload((0.0, [*parts, join]), (0.0, [turn(900, 8)]), (0.0, [turn(950, 8)]))
    run = simulate(load, ClosedLoop(1), num_pages=10)
    assert run.counters["turns never sent"] == 1
    assert [record.status for record in run.requests].count("finished") == 3


def test_a_workload_of_which_everything_is_refused_ends():
    load = workload(*[(float(n), [turn(0, 100)]) for n in range(5)])
    for pace in (OpenLoop(), ClosedLoop(2)):
        run = simulate(load, pace, num_pages=10)
        assert [record.status for record in run.requests] == ["refused"] * 5
        assert run.makespan_s == (4.0 if pace == OpenLoop() else 0.0)


@pytest.mark.parametrize("cache", BOTH_CACHES)
def test_progress_counts_every_turn_once_those_never_sent_included(cache):
    big = turn(0, 100, 1)
    first = turn(50, 4, 2)
    load = workload((0.0, [big, follow_up(big, 0, 500, 2)]), (0.0, [first, follow_up(first, 0, 90, 2)]))
    settled: list[int] = []
    run = simulation(load, num_pages=10, cache=cache)
    run._on_progress = settled.append
    run.run()
    assert sum(settled) == load.num_turns == 4


# What is recorded


def crowd(**more: Any):
    rng = np.random.default_rng(3)
    sessions = []
    for number in range(30):
        first = turn(1000 * (number % 4), int(rng.integers(5, 40)), int(rng.integers(1, 40)))
        second = follow_up(first, 0, 9000 + 50 * number, 7, int(rng.integers(1, 20)), think_s=0.01)
        sessions.append((0.002 * number, [first, second]))
    return simulate(workload(*sessions), num_pages=40, **more)


@pytest.mark.parametrize("cache", BOTH_CACHES)
@pytest.mark.parametrize("partial_reuse", [True, False])
def test_prompt_tokens_are_matched_copied_or_missed_and_computed_once(cache, partial_reuse):
    run = crowd(cache=cache, partial_reuse=partial_reuse)
    assert run.counters["preemptions"] or cache is NullPrefixCache
    for record in run.requests:
        assert record.status == "finished"
        assert (
            record.matched_tokens + record.copied_tokens + sum(record.miss.values()) == record.prompt_tokens
        )
        found = record.matched_tokens + record.copied_tokens
        assert record.computed_prompt_tokens <= record.prompt_tokens - found
        if not record.preemptions:
            assert found + record.computed_prompt_tokens == record.prompt_tokens
            assert record.recomputed_tokens == 0


@pytest.mark.parametrize("cache", BOTH_CACHES)
def test_pages_of_every_sample_are_all_pages_and_counts_never_fall(cache):
    run = crowd(cache=cache)
    for sample in run.timeline:
        by_state = (sample.free_pages, sample.private_pages, sample.evictable_pages, sample.locked_pages)
        assert sum(by_state) == 40
    for name in ("time_s", "matched_tokens", "prompt_tokens", "output_tokens"):
        values = [getattr(sample, name) for sample in run.timeline]
        assert values == sorted(values)


def test_the_last_sample_is_the_end():
    run = crowd()
    last = run.timeline[-1]
    assert last.time_s == run.makespan_s
    assert (last.waiting, last.running, last.private_pages, last.locked_pages) == (0, 0, 0, 0)
    assert last.output_tokens == sum(record.output_tokens for record in run.requests)
    assert last.prompt_tokens == sum(record.prompt_tokens for record in run.requests)
    assert last.matched_tokens == sum(record.matched_tokens for record in run.requests)


def test_the_picture_of_the_tree_holds_what_is_cached_at_the_end():
    run = crowd()

    def tokens(boxes) -> int:
        return sum(box.num_tokens + tokens(box.children) for box in boxes)

    assert tokens(run.tree) == run.timeline[-1].evictable_pages * 4
    assert not crowd(cache=NullPrefixCache).tree


def test_counters_say_what_the_cache_did():
    cached, baseline = crowd(), crowd(cache=NullPrefixCache)
    assert cached.counters["evictions"] > 0
    assert cached.counters["published pages"] > 0
    assert baseline.counters["evictions"] == baseline.counters["published pages"] == 0


def test_time_is_made_of_steps_and_waiting_only():
    device = FlatDevice()
    run = simulate(workload((0.0, [turn(0, 10, 30)]), (3.0, [turn(50, 9, 4)])), executor=device)
    busy = run.offered_load * run.last_arrival_s
    assert busy == pytest.approx(run.makespan_s)
    assert isinstance(device.plans[0].num_tokens, int)
    assert PS_PER_S == 10**12


def test_the_tenant_of_a_session_is_the_client_of_its_requests():
    load = workload((0.0, [turn(0, 8)]), (0.0, [turn(100, 8)]))
    tenants = [replace(load.sessions[0], tenant="acme"), load.sessions[1]]
    found = simulate(replace(load, sessions=tenants), policy="fair")
    assert [record.client for record in found.requests] == ["acme", None]
