from hypothesis import given
from hypothesis import strategies as st

from radixcache import CacheConfig, PrefixCache
from scheduler import PolicyOptions, Request, RequestState
from scheduler.policies.hrrn import HRRN
from tests.unit.scheduler.loop import Loop, ids


def queue_of(*lengths_and_times: tuple[int, float]) -> tuple[HRRN, list[Request]]:
    """Requests in namespaces of their own, so that each is looked at by itself."""
    queue = HRRN(PrefixCache(CacheConfig(num_pages=64, page_size=4)), PolicyOptions())
    requests = []
    for number, (length, time) in enumerate(lengths_and_times):
        request = Request.of(f"r{number}", ids(0, length), 1, namespace=f"n{number}")
        request.number, request.submitted_at = number, time
        queue.add(request)
        requests.append(request)
    return queue, requests


def test_what_is_short_goes_before_what_is_long_and_came_with_it():
    queue, (_, short) = queue_of((40, 0.0), (4, 0.0))
    assert queue.head(0.0) is short


def test_of_equals_the_older_goes_first():
    queue, (old, *_) = queue_of((8, 0.0), (8, 0.0), (8, 1.0))
    assert queue.head(5.0) is old


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), min_size=2, max_size=6), st.integers(20, 60)
)
def test_a_request_that_leads_those_who_came_later_or_with_it_goes_on_leading(requests, now):
    times = sorted(time for _, time in requests)
    queue, made = queue_of(
        *((length, float(time)) for (length, _), time in zip(requests, times, strict=True))
    )
    first = queue.head(float(now))
    shortest = min(made, key=lambda request: (len(request.prompt), request.number))
    later = queue.head(1e12)
    assert later is shortest or len(later.prompt) == len(shortest.prompt)
    ratio = {each: (now - each.submitted_at + 1) / len(each.prompt) for each in made}
    assert ratio[first] == max(ratio.values())


def test_only_what_is_not_cached_counts():
    loop = Loop(100, 4, policy="hrrn", max_running=1)
    loop.warm(ids(500, 60))
    short = loop.submit("short", ids(0, 12), 1)
    long = loop.submit("long but warm", ids(500, 61), 1)
    loop.run()
    assert long.first_scheduled_at < short.first_scheduled_at


def test_a_long_cold_request_comes_when_it_waited_long_enough():
    loop = Loop(200, 4, policy="hrrn", max_running=1, max_overtakes=10**9)
    loop.warm(ids(0, 40))
    cold = loop.submit("cold", ids(5000, 50), 1)
    num_hits = 0
    while cold.state is RequestState.WAITING:
        loop.submit(f"hit{num_hits}", [*ids(0, 40), num_hits], 1)
        num_hits += 1
        loop.step()
        assert num_hits < 500
    assert num_hits > 10
