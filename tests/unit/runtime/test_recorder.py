from itertools import pairwise

import pytest

from runtime.clock import PS_PER_S
from runtime.simulation import recorder
from runtime.simulation.arrivals import Arrival
from runtime.simulation.recorder import Timeline, record_of
from scheduler import Request, RequestState
from tests.unit.runtime.simulated import turn, workload
from tests.unit.scheduler.loop import Loop, ids


def arrival_of(kind: str = "first") -> Arrival:
    load = workload((0.0, [turn(0, 3, kind=kind)]))
    return Arrival(2 * PS_PER_S, 0, load.sessions[0], 0)


@pytest.fixture
def timeline():
    loop = Loop()
    return Timeline(loop.cache, loop.scheduler, every_ps=10)


def times_ps(timeline: Timeline) -> list[int]:
    return [round(sample.time_s * PS_PER_S) for sample in timeline.samples()]


def test_the_first_moment_is_sampled(timeline):
    timeline.tick(0, 0)
    assert times_ps(timeline) == [0]


def test_one_sample_for_each_distance_at_the_first_moment_in_it(timeline):
    for now in [0, 3, 9, 11, 12, 19, 20, 45, 49, 50]:
        timeline.tick(now, 0)
    assert times_ps(timeline) == [0, 11, 20, 45, 50]
    assert timeline.next_ps == 60


@pytest.mark.parametrize("most", [4, 8, 64])
def test_too_many_samples_are_thinned_and_the_distance_doubles(timeline, monkeypatch, most):
    monkeypatch.setattr(recorder, "_MAX_SAMPLES", most)
    for now in range(0, 100_000, 10):
        timeline.tick(now, now)
        assert len(timeline.samples()) <= most
    kept = times_ps(timeline)
    gaps = {later - earlier for earlier, later in pairwise(kept)}
    assert len(kept) >= most // 2
    assert kept[0] == 0
    assert len(gaps) == 1
    (gap,) = gaps
    assert gap.bit_count() == (10).bit_count()
    assert 100_000 - kept[-1] <= 2 * gap


def test_a_sample_on_demand_is_always_taken(timeline):
    timeline.tick(0, 0)
    timeline.sample(4, 7)
    timeline.sample(4, 8)
    assert times_ps(timeline) == [0, 4, 4]
    assert [sample.output_tokens for sample in timeline.samples()] == [0, 7, 8]


def test_a_sample_says_how_things_stand():
    loop = Loop(num_pages=10, max_running=1)
    loop.warm(ids(0, 8))
    loop.submit("a", ids(0, 9), 5)
    loop.submit("b", ids(500, 9), 5)
    loop.step()
    timeline = Timeline(loop.cache, loop.scheduler, every_ps=10)
    timeline.sample(PS_PER_S, output_tokens=1)
    (sample,) = timeline.samples()
    assert (sample.waiting, sample.running, sample.output_tokens) == (1, 1, 1)
    assert (sample.free_pages, sample.private_pages, sample.evictable_pages, sample.locked_pages) == (
        7,
        1,
        0,
        2,
    )
    assert (sample.matched_tokens, sample.prompt_tokens) == (8, 9)


def test_the_record_of_a_finished_request():
    loop = Loop()
    loop.warm(ids(0, 8))
    request = Request.of("s0/0", ids(0, 11), 2)
    loop.scheduler.submit(request, 2 * PS_PER_S)
    for second in (3, 5):
        plan = loop.scheduler.schedule(second * PS_PER_S)
        loop.scheduler.commit(plan, loop.outputs(plan), (second + 1) * PS_PER_S)
    record = record_of(arrival_of(kind="follow-up"), request)
    assert (record.request_id, record.session_id, record.turn, record.kind) == ("s0/0", "s0", 0, "follow-up")
    times = (record.arrival_s, record.first_scheduled_s, record.first_token_s, record.finished_s)
    assert times == (2.0, 3.0, 4.0, 6.0)
    assert (record.prompt_tokens, record.matched_tokens, record.computed_prompt_tokens) == (11, 8, 3)
    assert (record.output_tokens, record.status, record.error) == (2, "finished", None)
    assert record.miss == {"shorter_than_page": 3}


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("new", "refused"),
        ("waiting", "unfinished"),
        ("running", "unfinished"),
        ("preempted", "unfinished"),
        ("finished", "finished"),
        ("aborted", "aborted"),
        ("failed", "failed"),
    ],
)
def test_the_status_of_every_state(state, status):
    request = Request.of("a", [1], 1)
    request.state = RequestState(state)
    assert record_of(arrival_of(), request).status == status


def test_a_refusal_is_recorded_with_its_reason_and_without_times():
    record = record_of(arrival_of(), Request.of("a", [1], 1), ValueError("too long"))
    assert (record.status, record.error) == ("refused", "too long")
    assert (record.first_scheduled_s, record.first_token_s, record.finished_s) == (None, None, None)


def test_a_failure_is_recorded_with_the_requests_own_error():
    request = Request.of("a", [1], 1)
    request.error = MemoryError("outgrown")
    request.state = RequestState.FAILED
    assert record_of(arrival_of(), request).error == "outgrown"
