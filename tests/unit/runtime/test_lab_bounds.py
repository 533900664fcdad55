from dataclasses import replace

import numpy as np
import pytest

from radixcache import RadixCacheError
from runtime.lab import (
    admission_order,
    bounds,
    counted_bounds,
    lru_curve,
    optimal_hits,
    page_trace,
    run_bounds,
)
from runtime.result import RequestRecord
from runtime.workload import Literal, Session, Turn, Workload


def workload(*prompts: list[int]) -> Workload:
    """Sessions of one turn, named a, b, c, … All of the prompt but its last token may be found."""
    return Workload(
        name="test",
        sessions=tuple(
            Session(
                session_id=chr(ord("a") + number),
                start_s=float(number),
                turns=(Turn(segments=(Literal(np.array(prompt, dtype=np.int32)),), output_len=1),),
            )
            for number, prompt in enumerate(prompts)
        ),
    )


LOOP = workload([1, 10, 91], [2, 20, 92], [1, 10, 93], [2, 20, 94], [1, 10, 95])


def test_lru_loses_a_loop_that_clairvoyance_partly_keeps() -> None:
    # Room for four pages: the prompt in use, and one page of the other.
    trace = page_trace(LOOP, page_size=1)
    assert int(lru_curve(trace).hit_tokens(4)) == 0 + 0 + 1 + 1 + 1
    assert optimal_hits(trace, 4).tolist() == [0, 0, 1, 1, 1]
    assert optimal_hits(trace, 5).tolist() == [0, 0, 2, 2, 2]


def test_a_page_that_is_never_used_again_goes_first() -> None:
    trace = page_trace(workload([1, 91], [2, 92], [3, 93], [1, 94]), page_size=1)
    assert int(lru_curve(trace).hit_tokens(4)) == 0
    assert optimal_hits(trace, 4).tolist() == [0, 0, 0, 1]


def test_figures_beside_a_hit_rate() -> None:
    found = run_bounds(LOOP, page_size=1, capacity_tokens=4)
    assert (found.prompt_tokens, found.ceiling_tokens, found.optimum_tokens) == (15, 6, 3)
    assert (found.ceiling_rate, found.optimum_rate) == (6 / 15, 3 / 15)
    assert (found.of_ceiling(2), found.of_optimum(2)) == (2 / 6, 2 / 3)


def test_where_nothing_could_be_found_there_is_no_share() -> None:
    found = run_bounds(workload([1], [2]), page_size=1, capacity_tokens=4)
    assert (found.of_ceiling(0), found.of_optimum(0)) == (None, None)
    assert (found.ceiling_rate, run_bounds(workload(), page_size=1, capacity_tokens=4).optimum_rate) == (0, 0)


def test_the_order_of_admission_decides() -> None:
    sorted_order = [(name, 0) for name in "acebd"]
    assert run_bounds(LOOP, page_size=1, capacity_tokens=4, order=sorted_order).optimum_tokens == 6


def test_requests_that_do_not_fit_are_left_out_of_a_run_and_refused_in_a_trace() -> None:
    found = run_bounds(workload([1, 2], [1, 2, 3, 4], [1, 3]), page_size=1, capacity_tokens=3)
    assert (found.num_requests, found.num_left_out, found.prompt_tokens) == (2, 1, 4)
    with pytest.raises(RadixCacheError, match="capacity of 3 tokens is less"):
        bounds(page_trace(workload([1, 2, 3, 4]), page_size=1), 3)


def test_admitted_requests_stand_in_the_order_of_their_first_admission() -> None:
    record = RequestRecord(
        request_id="a/0",
        session_id="a",
        turn=0,
        kind="turn",
        arrival_s=0.0,
        first_scheduled_s=2.0,
        first_token_s=None,
        finished_s=None,
        prompt_tokens=1,
        matched_tokens=0,
        copied_tokens=0,
        computed_prompt_tokens=1,
        recomputed_tokens=0,
        output_tokens=0,
        miss={},
        preemptions=0,
        status="finished",
    )
    records = [
        record,
        replace(record, session_id="b", first_scheduled_s=None),
        replace(record, session_id="c", first_scheduled_s=1.0),
        replace(record, session_id="a", turn=1, first_scheduled_s=2.0),
    ]
    assert admission_order(records) == [("c", 0), ("a", 0), ("a", 1)]


def test_a_warm_up_fills_the_cache_and_is_not_counted() -> None:
    order = [(name, 0) for name in "abcde"]
    counted = {("c", 0), ("d", 0), ("e", 0)}
    found = counted_bounds(LOOP, page_size=1, capacity_tokens=4, order=order, counted=counted)
    assert (found.num_requests, found.prompt_tokens) == (3, 9)
    assert (found.ceiling_tokens, found.optimum_tokens) == (6, 3)
    everything = counted_bounds(LOOP, page_size=1, capacity_tokens=4, order=order, counted=set(order))
    assert everything == run_bounds(LOOP, page_size=1, capacity_tokens=4, order=order)


def test_counting_takes_one_word_for_each_request() -> None:
    with pytest.raises(RadixCacheError, match="counted has 2 entries, the trace 5 requests"):
        bounds(page_trace(LOOP, page_size=1), 4, np.array([True, False]))
