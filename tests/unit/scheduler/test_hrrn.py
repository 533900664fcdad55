from hypothesis import given
from hypothesis import strategies as st

from radixcache import CacheConfig, PrefixCache
from scheduler import PolicyOptions, Request, RequestState
from scheduler.policies.hrrn import HRRN
from tests.unit.scheduler.loop import Loop, ids


def queue_of(*lengths_and_times: tuple[int, float]) -> tuple[HRRN, list[Request]]:
    """Cold requests with a length and a time of submission."""
    queue = HRRN(PrefixCache(CacheConfig(num_pages=64, page_size=4)), PolicyOptions())
    requests = []
    for number, (length, time) in enumerate(lengths_and_times):
        request = Request.of(f"r{number}", ids(1_000 * (number % 3), length), 1)
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
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), min_size=1, max_size=6), st.integers(20, 60)
)
def test_the_highest_ratio_goes_first_and_waiting_raises_every_ratio(requests, now):
    times = sorted(time for _, time in requests)
    lengths = [length for length, _ in requests]
    queue, made = queue_of(*((length, float(time)) for length, time in zip(lengths, times, strict=True)))

    def ratio(request: Request, at: float) -> float:
        return (at - request.submitted_at + 1) / len(request.prompt)

    assert queue.head(float(now)) is max(made, key=lambda each: (ratio(each, now), -each.number))
    assert all(ratio(each, now + 1) > ratio(each, now) for each in made)


def test_rows_of_nodes_and_requests_that_left_are_used_again():
    queue, requests = queue_of(*((3 + number % 50, 0.0) for number in range(300)))
    queue._columns._look_up_all()
    size = len(queue._columns._table._parents)
    for request in requests:
        queue.remove(request)
    assert queue.head(1.0) is None
    assert not queue._columns._table._row_of
    assert len(queue._columns._table._parents) < size
    assert len(queue._columns.keys) <= 16
    for number in range(300, 600):
        request = Request.of(f"r{number}", ids(0, 3 + number % 50), 1)
        request.number, request.submitted_at = number, 0.0
        queue.add(request)
    queue._columns._look_up_all()
    assert len(queue._columns._table._parents) <= size
    assert queue.head(1.0).number == 300


def test_what_was_evicted_before_two_nodes_became_one_is_not_forgotten():
    loop = Loop(64, 2)
    queue = HRRN(loop.cache, PolicyOptions())
    loop.warm([1, 1, 2, 2])
    prompts = {"long": [1, 1, 2, 2, 3, 3, 0], "beside": [1, 1, 2, 2, 4, 4, 0], "short": [9, 9, 9, 9, 0]}
    requests = {}
    for number, (name, prompt) in enumerate(prompts.items()):
        request = requests[name] = Request.of(name, prompt, 1)
        request.number, request.submitted_at = number, 0.0
        queue.add(request)
    assert queue.head(1.0) is requests["long"]
    loop.cache.evict(2)
    queue.remove(requests["beside"])
    assert queue.head(1.0) is requests["short"]


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
