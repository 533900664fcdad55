import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.metrics import goodput, percentile, spread, summarise, summarise_kinds
from runtime.result import Bounds
from tests.unit.runtime.sample_result import plausible_result, record, run, sample

FLOATS = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


def unscheduled(**changes: object) -> object:
    values: dict[str, object] = {
        "first_scheduled_s": None,
        "first_token_s": None,
        "finished_s": None,
        "matched_tokens": 0,
        "computed_prompt_tokens": 0,
        "output_tokens": 0,
        "miss": {},
        "status": "unfinished",
    }
    return record(**(values | changes))


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 15), (5, 15), (30, 20), (40, 20), (50, 35), (99, 50), (100, 50)]
)
def test_percentiles_are_nearest_rank(percent: int, expected: float):
    assert percentile([15, 20, 35, 40, 50], percent) == expected


def test_the_median_of_two_is_the_smaller():
    assert percentile([1.0, 2.0], 50) == 1.0


def test_p99_of_a_hundred_is_the_99th_and_of_101_the_100th():
    assert percentile(range(1, 101), 99) == 99
    assert percentile(range(1, 102), 99) == 100


def test_a_percentile_of_nothing_is_none():
    assert percentile([], 50) is None


@pytest.mark.parametrize("percent", [0, -1, 101])
def test_a_percentile_outside_its_range_is_refused(percent: int):
    with pytest.raises(ValueError, match=f"percentile {percent} lies outside"):
        percentile([1.0], percent)


@given(FLOATS, st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], percent: int):
    found = percentile(sorted(values), percent)
    enough = [v for v in values if 100 * sum(w <= v for w in values) >= percent * len(values)]
    assert found == min(enough)


@given(FLOATS, st.randoms(use_true_random=False))
def test_a_spread_does_not_depend_on_the_order(values: list[float], random: object):
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert spread(shuffled) == spread(values)


@given(FLOATS)
def test_a_spread_is_ordered(values: list[float]):
    found = spread(values)
    assert found is not None
    assert found.p50 <= found.p90 <= found.p99 <= found.largest == max(values)
    assert found.count == len(values)


def test_a_spread_of_nothing_is_none():
    assert spread([]) is None


def test_ttft_counts_from_arrival_and_so_includes_the_queue():
    summary = summarise(run([record(arrival_s=1.0, first_scheduled_s=1.5, first_token_s=2.0)]))
    assert summary.ttft_s is not None
    assert summary.ttft_s.p50 == 1.0


def test_tpot_divides_by_the_outputs_after_the_first():
    summary = summarise(run([record(first_token_s=2.0, finished_s=5.0, output_tokens=4)]))
    assert summary.tpot_s is not None
    assert summary.tpot_s.p50 == 1.0


def test_requests_with_one_output_have_no_tpot_and_are_counted():
    one = record(first_token_s=2.0, finished_s=2.0, output_tokens=1)
    summary = summarise(run([one, one, record()]))
    assert summary.tpot_left_out == 2
    assert summary.tpot_s is not None
    assert summary.tpot_s.count == 1


def test_e2e_counts_from_arrival_to_the_last_token():
    summary = summarise(run([record(arrival_s=1.0, finished_s=5.0)]))
    assert summary.e2e_s is not None
    assert summary.e2e_s.p50 == 4.0


def test_queue_delay_counts_from_arrival_to_the_first_schedule():
    summary = summarise(run([record(arrival_s=1.0, first_scheduled_s=1.5)]))
    assert summary.queue_delay_s is not None
    assert summary.queue_delay_s.p50 == 0.5


def test_the_hit_rate_weighs_by_tokens():
    long = record(prompt_tokens=900, matched_tokens=0)
    short = record(prompt_tokens=100, matched_tokens=96)
    assert summarise(run([long, short])).hit_rate == 96 / 1000


def test_a_request_never_admitted_is_not_part_of_the_hit_rate():
    summary = summarise(run([record(), unscheduled(prompt_tokens=10_000)]))
    assert summary.hit_rate == 64 / 100
    assert summary.prompt_tokens == 100


def test_recomputed_tokens_are_kept_apart():
    summary = summarise(run([record(computed_prompt_tokens=36, recomputed_tokens=50)]))
    assert (summary.computed_prompt_tokens, summary.recomputed_tokens) == (36, 50)
    assert summary.prompt_tokens == 100


def test_copied_tokens_are_not_matched_tokens():
    summary = summarise(run([record(matched_tokens=64, copied_tokens=5)]))
    assert (summary.copied_tokens, summary.hit_rate) == (5, 0.64)


def test_throughput_divides_by_the_makespan_and_says_which_tokens():
    summary = summarise(run([record(prompt_tokens=100, output_tokens=4)], makespan_s=2.0))
    assert summary.output_tokens_per_s == 2.0
    assert summary.total_tokens_per_s == 52.0
    assert summary.finished_per_s == 0.5


def test_output_of_an_unfinished_request_counts_its_prompt_only_after_the_first_token():
    begun = record(finished_s=None, output_tokens=6, status="unfinished")
    summary = summarise(run([begun, unscheduled()], makespan_s=2.0))
    assert summary.output_tokens_per_s == 3.0
    assert summary.total_tokens_per_s == 53.0
    assert summary.finished_per_s == 0.0


def test_an_unfinished_request_has_a_ttft_but_neither_tpot_nor_e2e():
    summary = summarise(run([record(finished_s=None, status="unfinished")]))
    assert summary.ttft_s is not None
    assert summary.tpot_s is None
    assert summary.e2e_s is None


@pytest.mark.parametrize("status", ["refused", "failed", "aborted", "unfinished"])
def test_every_fate_is_counted(status: str):
    summary = summarise(run([record(), unscheduled(status=status), unscheduled(status=status)]))
    assert getattr(summary, status) == 2
    assert (summary.submitted, summary.finished, summary.admitted) == (3, 1, 1)


def test_an_aborted_request_with_an_end_has_no_e2e():
    assert summarise(run([record(status="aborted")])).e2e_s is None


def test_nothing_gives_none_and_never_zero():
    summary = summarise(run([], makespan_s=0.0))
    assert summary.submitted == 0
    for name in (
        "hit_rate", "ttft_s", "tpot_s", "e2e_s", "queue_delay_s", "output_tokens_per_s",
        "total_tokens_per_s", "finished_per_s", "evictions", "max_waiting", "mean_waiting",
        "max_running",
    ):  # fmt: skip
        assert getattr(summary, name) is None, name


def test_no_number_of_a_summary_is_nan():
    for each in plausible_result(50, 20).runs:
        numbers = [v for v in dataclasses.asdict(summarise(each)).values() if isinstance(v, float)]
        assert not any(map(math.isnan, numbers))


def test_miss_reasons_add_up_with_most_tokens_first():
    one = record(miss={"last_token": 1, "evicted": 20})
    two = record(miss={"last_token": 1, "never_seen": 30, "evicted": 3})
    miss = summarise(run([one, two])).miss
    assert list(miss.items()) == [("never_seen", 30), ("evicted", 23), ("last_token", 2)]


def test_matched_copied_and_missed_tokens_are_the_prompt():
    for each in plausible_result(100, 5).runs:
        summary = summarise(each)
        found = summary.matched_tokens + summary.copied_tokens
        assert found + sum(summary.miss.values()) == summary.prompt_tokens


def test_preemptions_and_preempted_requests_are_counted():
    summary = summarise(run([record(preemptions=2), record(preemptions=1), record()]))
    assert (summary.preemptions, summary.preempted_requests) == (3, 2)


def test_evictions_come_from_the_counters():
    assert summarise(run(counters={"evictions": 7})).evictions == 7


def test_mean_waiting_weighs_each_sample_by_the_time_until_the_next():
    timeline = [sample(0.0, waiting=4), sample(1.0, waiting=0), sample(4.0, waiting=100)]
    summary = summarise(run(timeline=timeline))
    assert (summary.mean_waiting, summary.max_waiting) == (1.0, 100)


def test_one_sample_has_a_maximum_but_no_mean():
    summary = summarise(run(timeline=[sample(1.0, waiting=4, running=2)]))
    assert (summary.mean_waiting, summary.max_waiting, summary.max_running) == (None, 4, 2)


def test_goodput_counts_finished_requests_that_kept_both_limits():
    slow_start = record(first_token_s=9.0, finished_s=9.1)
    slow_tokens = record(first_token_s=1.5, finished_s=9.0)
    in_time = record(first_token_s=2.0, finished_s=5.0)
    one_token = record(first_token_s=2.0, finished_s=2.0, output_tokens=1)
    unfinished = record(finished_s=None, status="unfinished")
    all_of_them = [slow_start, slow_tokens, in_time, one_token, unfinished]
    assert goodput(run(all_of_them), ttft_limit_s=1.0, tpot_limit_s=1.0) == 2 / 10.0


def test_goodput_is_none_if_no_time_passed():
    assert goodput(run([], makespan_s=0.0), ttft_limit_s=1.0, tpot_limit_s=1.0) is None


def test_kinds_stand_in_order_of_arrival_and_add_up():
    result = plausible_result(100, 5).runs[1]
    kinds = summarise_kinds(result)
    assert list(kinds) == ["first", "follow-up", "tool result", "sub-agent"]
    whole = summarise(result)
    assert sum(kind.prompt_tokens for kind in kinds.values()) == whole.prompt_tokens
    assert sum(kind.submitted for kind in kinds.values()) == whole.submitted


def test_hits_are_compared_with_what_was_possible():
    bounds = Bounds(
        capacity_tokens=640,
        prompt_tokens=100,
        ceiling_tokens=80,
        optimum_tokens=70,
        num_requests=1,
        num_left_out=0,
    )
    summary = summarise(run([record(matched_tokens=64)], bounds=bounds))
    assert (summary.of_ceiling, summary.of_optimum) == (64 / 80, 64 / 70)
    unknown = summarise(run([record(matched_tokens=64)]))
    assert (unknown.of_ceiling, unknown.of_optimum) == (None, None)
