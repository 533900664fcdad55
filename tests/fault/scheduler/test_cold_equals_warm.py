"""M02: what is generated does not depend on the cache, on chunks, or on who else runs."""

import pytest

from radixcache import NullPrefixCache, PrefixCache
from scheduler import Request
from tests.fault.scheduler.toy_engine import VOCABULARY, ToyEngine, generate
from tests.unit.scheduler.loop import Loop, ids


def serve(prompts: list[list[int]], output_len: int, *, one_by_one: bool = False, **settings) -> Loop:
    """Serve all prompts and compare every output with that of an engine without cache."""
    loop = Loop(**settings)
    pages = loop.cache.pages.total
    engine = ToyEngine(pages * loop.cache.config.page_size, loop.cache.config.page_size)
    requests: list[Request] = []
    for number, prompt in enumerate(prompts):
        requests.append(loop.submit(f"r{number}", prompt, output_len))
        if one_by_one:
            drive(loop, engine)
    drive(loop, engine)
    for request, prompt in zip(requests, prompts, strict=True):
        assert request.output == generate(prompt, output_len), request
    loop.assert_nothing_is_held()
    return loop


def drive(loop: Loop, engine: ToyEngine) -> None:
    while not loop.scheduler.is_idle:
        plan = loop.schedule()
        if plan:
            loop.commit(plan, engine.execute(plan))


def test_the_reference_itself_uses_every_token_and_its_place():
    prompt = ids(0, 12)
    outputs = [generate(prompt, 20)]
    for position in range(12):
        changed = [*prompt]
        changed[position] += 1
        outputs.append(generate(changed, 20))
    outputs.append(generate([*prompt[1:], prompt[0]], 20))
    outputs.append(generate(prompt, 20, namespace="other"))
    assert len({tuple(output) for output in outputs}) == len(outputs)
    assert {token for output in outputs for token in output} == set(range(VOCABULARY))


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("cached", range(14))
def test_whatever_part_of_a_prompt_is_cached(page_size, cached):
    prompt = ids(3, 14)
    prompts = [[*prompt[: cached + 1], 99], prompt]
    loop = serve(prompts, 6, one_by_one=True, num_pages=64, page_size=page_size)
    assert loop.cache.stats.matched_tokens == min(cached + 1, 13) // page_size * page_size


@pytest.mark.parametrize("cache", [PrefixCache, NullPrefixCache])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, 13, 100])
def test_whatever_the_chunks(cache, chunk):
    prompts = [[*ids(0, 9), *ids(100 * n, n)] for n in range(5)]
    serve(prompts, 5, num_pages=64, page_size=2, cache=cache, prefill_chunk_tokens=chunk)


@pytest.mark.parametrize("budget", [1, 2, 3, 7, 20])
def test_whatever_the_budget(budget):
    prompts = [[*ids(0, 9), *ids(100 * n, n)] for n in range(5)]
    serve(prompts, 5, num_pages=64, page_size=2, token_budget=budget)


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("policy", ["fcfs", "lpm"])
@pytest.mark.parametrize("num_tokens", [24, 28, 36])
def test_whatever_has_to_be_evicted_and_thrown_back(page_size, policy, num_tokens):
    prompts = [[*ids(0, 5), *ids(100 * (n % 4), 1 + n % 3)] for n in range(14)]
    loop = serve(prompts, 12, num_pages=num_tokens // page_size, page_size=page_size, policy=policy)
    assert loop.cache.stats.evicted_pages


@pytest.mark.parametrize("page_size", [2, 4, 8])
def test_whatever_is_copied_from_part_of_a_page(page_size):
    prompts = [[*ids(0, 3 + n), 90 + n, 95, 96] for n in range(9)]
    loop = serve(prompts, 4, one_by_one=True, num_pages=64, page_size=page_size, partial_reuse=True)
    assert loop.cache.stats.copied_tokens


def test_equal_prompts_at_once():
    loop = serve([ids(0, 11)] * 6, 9, num_pages=64, page_size=2)
    assert loop.cache.stats.duplicate_pages


def test_the_next_turn_on_prompt_and_output():
    loop = Loop(num_pages=64, page_size=2)
    engine = ToyEngine(128, 2)
    history: list[int] = []
    for turn in range(5):
        history += ids(50 * turn, 3)
        request = loop.submit(f"turn {turn}", history, 4)
        drive(loop, engine)
        assert request.output == generate(history, 4)
        assert request.matched_len == max(0, (len(history) - 3 - 1) // 2 * 2)
        history += request.output
