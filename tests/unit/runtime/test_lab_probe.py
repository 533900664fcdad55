import pytest

from radixcache.errors import InvalidConfig
from runtime.lab.probe import Limits, Probe, judge
from runtime.result import RequestRecord
from runtime.simulation import ClosedLoop, OpenLoop
from tests.unit.runtime.sample_result import record, run
from tests.unit.runtime.simulated import turn, workload

FOUR = workload(*[(float(n), [turn(100 * n, 8)]) for n in range(4)])


def request(number: int, ttft_s: float = 0.5, tpot_s: float = 0.01, **changes: object) -> RequestRecord:
    """Session `number`, arriving at second `number`, with 11 output tokens."""
    return record(
        session_id=f"s{number}",
        arrival_s=float(number),
        first_token_s=number + ttft_s,
        finished_s=number + ttft_s + 10 * tpot_s,
        output_tokens=11,
        **changes,
    )


def judged(*requests: RequestRecord, pace=OpenLoop(), **limits: float) -> Probe:  # noqa: B008 - frozen
    return judge(run(list(requests), makespan_s=20.0), FOUR, Limits(**limits), 1, 4096, pace)


def test_limits_hold_at_the_limit_itself():
    found = judged(*[request(n, ttft_s=0.5) for n in range(4)], ttft_s=0.5, tpot_s=0.011)
    assert found.holds
    assert (found.ttft_s, found.tpot_s) == (0.5, pytest.approx(0.01))


@pytest.mark.parametrize(("slow", "percentile", "holds"), [(1, 75, True), (1, 76, False), (2, 75, False)])
def test_the_percentile_says_how_many_may_be_late(slow, percentile, holds):
    requests = [request(n, ttft_s=9.0 if n < slow else 0.5) for n in range(4)]
    assert judged(*requests, percentile=percentile).holds is holds


def test_a_long_time_per_output_token_breaks_them_too():
    assert not judged(request(0), request(1, tpot_s=0.06)).holds


@pytest.mark.parametrize("status", ["refused", "failed", "aborted"])
def test_a_request_that_was_not_served_keeps_no_limit(status):
    lost = record(session_id="s1", first_token_s=None, finished_s=None, output_tokens=0, status=status)
    found = judged(request(0), lost)
    assert not found.holds
    assert (found.ttft_s, found.tpot_s, found.num_unserved) == (None, None, 1)


def test_one_output_token_has_no_time_per_token_and_keeps_that_limit():
    short = record(session_id="s0", first_token_s=1.1, finished_s=1.1, output_tokens=1)
    found = judged(short)
    assert found.holds
    assert found.tpot_s is None


def test_rates_follow_from_the_workload_and_its_scale():
    found = judged(*[request(n) for n in range(4)], pace=OpenLoop(2.0))
    assert (found.rate, found.sessions_per_s, found.requests_per_s) == (2.0, 2.0, 2.0)
    users = judged(request(0), pace=ClosedLoop(3))
    assert (users.rate, users.sessions_per_s, users.requests_per_s) == (3.0, None, None)


def test_goodput_counts_the_second_half_of_the_starts():
    # Sessions start from second 0 to 3: what arrives after 1.5 counts, over 1.5 seconds.
    found = judged(request(0), request(1), request(2, ttft_s=5.0), request(3))
    assert found.arrived_per_s == pytest.approx(2 / 1.5)
    assert found.goodput_per_s == pytest.approx(1 / 1.5)


def test_a_load_that_ends_before_it_is_there_is_not_steady():
    assert judged(*[request(n) for n in range(4)]).steady
    assert not judged(*[request(n) for n in range(4)], pace=OpenLoop(8.0)).steady
    assert judged(request(0), pace=ClosedLoop(2)).steady
    assert not judged(request(0), pace=ClosedLoop(3)).steady


BAD = [{"ttft_s": 0}, {"ttft_s": float("inf")}, {"tpot_s": -1}, {"percentile": 0}, {"percentile": 101}]


@pytest.mark.parametrize("limits", BAD, ids=str)
def test_limits_out_of_range_are_refused(limits):
    ((name, value),) = limits.items()
    with pytest.raises(InvalidConfig, match=f"{name}.*{value}"):
        Limits(**limits)
