import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workloads import page_lru
from bench.workloads.generated_trace import LONGEST_PROMPT, generate
from bench.workloads.trace import BLOCK_SIZE, FRESH_TOKEN_BASE, FreshOutputs, Trace, make_trace

PAGE_SIZE = 16


def test_prompt_expands_block_ids_to_tokens():
    trace = make_trace("t", [([0], 2, 1), ([0, 3], BLOCK_SIZE + 2, 1)])
    assert trace.prompt(0).tolist() == [0, 1]
    assert trace.prompt(1).tolist() == [*range(BLOCK_SIZE), 3 * BLOCK_SIZE, 3 * BLOCK_SIZE + 1]
    assert trace.prompt(0, shift=5).tolist() == [5 * BLOCK_SIZE, 5 * BLOCK_SIZE + 1]


def test_distinct_tokens_count_a_shared_block_once_at_its_longest():
    trace = make_trace("t", [([0, 1], BLOCK_SIZE + 10, 1), ([0, 1], BLOCK_SIZE + 30, 1), ([0], 20, 1)])
    assert trace.distinct_tokens() == BLOCK_SIZE + 30


def test_trace_survives_a_file(tmp_path):
    trace = generate(20, seed=3)
    trace.save(tmp_path / "trace.npz")
    loaded = Trace.load(tmp_path / "trace.npz")
    assert (loaded.name, len(loaded)) == (trace.name, 20)
    assert all(np.array_equal(loaded.prompt(number), trace.prompt(number)) for number in range(20))


def test_outputs_are_never_repeated():
    outputs = FreshOutputs()
    assert outputs.take(2).tolist() == [FRESH_TOKEN_BASE, FRESH_TOKEN_BASE + 1]
    assert outputs.take(1).tolist() == [FRESH_TOKEN_BASE + 2]


def test_generated_trace_has_the_shape_it_claims():
    trace = generate(5_000, seed=0)
    assert 11_000 < trace.prompt_lens.mean() < 13_500
    assert 310 < trace.output_lens.mean() < 380
    assert trace.prompt_lens.max() <= LONGEST_PROMPT
    assert {int(trace.blocks(number)[0]) for number in range(len(trace))} == {0}
    hits = page_lru.infinite_matched_tokens(trace, page_size=PAGE_SIZE) / int(trace.prompt_lens.sum())
    assert 0.30 < hits < 0.45


def test_same_seed_gives_the_same_trace():
    assert np.array_equal(generate(200, seed=1).block_ids, generate(200, seed=1).block_ids)
    assert not np.array_equal(generate(200, seed=1).prompt_lens, generate(200, seed=2).prompt_lens)


def test_oracle_never_matches_the_last_token():
    trace = make_trace("t", [([0], 64, 1), ([0], 64, 1)])
    assert page_lru.replay(trace, num_pages=100, page_size=PAGE_SIZE).matched_tokens == 48


def test_oracle_evicts_the_page_used_longest_ago_from_its_tail():
    trace = make_trace("t", [([1], 32, 1), ([2], 32, 1), ([1], 33, 1)])
    result = page_lru.replay(trace, num_pages=4, page_size=PAGE_SIZE)
    assert (result.matched_tokens, result.evicted_pages) == (16, 2)


REQUESTS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 120), st.integers(1, 40)), max_size=30)


@given(REQUESTS)
def test_oracle_hits_grow_with_capacity(requests):
    trace = make_trace(
        "t", [([block], prompt, output) for block, prompt, output in requests] or [([0], 1, 1)]
    )
    hits = [
        page_lru.replay(trace, num_pages=num_pages, page_size=PAGE_SIZE).matched_tokens
        for num_pages in (10, 15, 25, 100)
    ]
    assert hits == sorted(hits)


def test_mooncake_file_is_read_as_it_is(tmp_path):
    from bench.benchmarks.traces import load

    path = tmp_path / "trace.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [0, 7]}\n')
    trace = load(path)
    assert (trace.name, len(trace), trace.blocks(0).tolist()) == ("trace.jsonl", 1, [0, 7])
    assert (int(trace.prompt_lens[0]), int(trace.output_lens[0])) == (600, 3)


@pytest.mark.parametrize("capacity", [1_000_000, 3_000_000, 10_000_000])
def test_known_hit_rates_belong_to_the_known_trace_only(capacity):
    from bench.benchmarks.traces import expected_hit_rate

    assert expected_hit_rate(generate(10, seed=0), capacity, PAGE_SIZE) is None


def test_workload_of_a_generated_trace_asks_for_the_same_prompts():
    from bench.benchmarks.traces import trace_of, workload_of
    from bench.options import Options

    options = Options(size="tiny", seed=2)
    trace, workload = trace_of(options), workload_of(options)
    turns = [turn for session in workload.sessions for turn in session.turns]
    assert [turn.output_len for turn in turns] == trace.output_lens.tolist()
    assert all(
        np.array_equal(turn.segments[0].tokens(), trace.prompt(number)) for number, turn in enumerate(turns)
    )
