import random

from scheduler import RequestState
from tests.unit.scheduler.loop import Loop, ids


def crowded(seed: int = 0, **settings) -> tuple[Loop, list]:
    """Random prompts that share nothing, in a pool that makes the scheduler throw requests back."""
    rng = random.Random(seed)
    loop = Loop(14, 4, **settings)
    loop.let_expect(1)
    prompts = [[rng.randrange(2**20) for _ in range(rng.randrange(5, 14))] for _ in range(12)]
    requests = [loop.submit(f"r{n}", prompt, rng.randrange(9, 30)) for n, prompt in enumerate(prompts)]
    loop.run()
    assert sum(request.num_preemptions for request in requests) > 0
    return loop, requests


def test_reading_ones_own_pages_after_a_preemption_is_no_hit():
    loop, _ = crowded()
    stats = loop.cache.stats
    assert stats.hit_rate == 0
    assert stats.resumed_matched_tokens > 0


def test_every_request_is_looked_up_once_however_often_it_was_tried():
    loop, requests = crowded()
    stats = loop.cache.stats
    returns = sum(request.num_preemptions for request in requests)
    assert stats.lookups == len(requests)
    assert stats.resumed_lookups == returns
    assert stats.prompt_tokens == sum(len(request.prompt) for request in requests)


def test_a_hundred_refusals_are_not_counted():
    loop = Loop(30, 4)
    loop.submit("holder", ids(900, 8), 105)
    loop.step()
    late = loop.submit("late", ids(0, 40), 81)
    for _ in range(100):
        loop.step()
        loop.scheduler._roster.line._is_blocked = False  # so that it is really tried each time
    assert late.state is RequestState.WAITING
    assert loop.cache.stats.lookups == 1
    assert loop.cache.stats.prompt_tokens == 8
    loop.run()
    assert loop.cache.stats.lookups == 2


def test_what_is_reported_as_cached_is_the_first_admissions_and_never_more_than_the_prompt():
    _, requests = crowded()
    for request in requests:
        assert request.matched_len == 0
        assert sum(request.missed_tokens.values()) == len(request.prompt)


def test_prompt_tokens_computed_first_are_told_from_those_computed_again():
    _, requests = crowded()
    for request in requests:
        assert request.prefill_tokens == len(request.prompt)
    assert sum(request.recomputed_tokens for request in requests) > 0


def test_all_rows_together_are_first_and_second_computations_and_decodes():
    loop, requests = crowded()
    for request in requests:
        rows = sum(row.extend_len for plan in loop.plans for row in plan.rows if row.request is request)
        decoded = len(request.output) - 1
        assert rows == request.prefill_tokens + request.recomputed_tokens + decoded


def test_matched_copied_and_missed_tokens_are_the_prompt():
    loop = Loop(page_size=4, partial_reuse=True)
    loop.warm(ids(0, 8))
    for number, prompt in enumerate(
        [ids(0, 9), [*ids(0, 6), 90, 91], [*ids(0, 6), *ids(90, 9)], [0, 1, 2], [7]]
    ):
        request = loop.submit(f"r{number}", prompt, 1)
        loop.run()
        missed = sum(request.missed_tokens.values())
        assert request.matched_len + request.copied_len + missed == len(prompt)
        assert min(request.missed_tokens.values()) >= 0
        assert request.matched_len + request.copied_len + request.prefill_tokens == len(prompt)


def test_waiting_and_running_are_counted_apart():
    loop = Loop(max_running=1)
    for name in "abc":
        loop.submit(name, [ord(name)], 2)
    assert (loop.scheduler.num_waiting, loop.scheduler.num_running) == (3, 0)
    loop.step()
    assert (loop.scheduler.num_waiting, loop.scheduler.num_running) == (2, 1)
    assert not loop.scheduler.is_idle
    loop.run()
    assert (loop.scheduler.num_waiting, loop.scheduler.num_running) == (0, 0)
    assert loop.scheduler.is_idle
