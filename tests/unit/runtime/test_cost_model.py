import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.errors import InvalidArgument, InvalidConfig, UnknownName
from runtime.cost import CostModel, Gpu, StepLoad, find_gpu, find_model
from runtime.errors import ModelDoesNotFit

LLAMA_8B = find_model("Llama-3.1-8B")
LLAMA_70B = find_model("Llama-3.1-70B")
H100 = find_gpu("H100-SXM")
TINY = replace(LLAMA_8B, layers=1, hidden=8, intermediate=8, heads=1, kv_heads=1, vocab=8)
ROWS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.booleans()), max_size=5)


def tiny_gpu(*, flops: int, bandwidth: int) -> Gpu:
    """A GPU slow enough that compute and memory cross within a few steps of a tiny model."""
    return replace(H100, bandwidth=bandwidth, peak_flops={"bf16": flops})


def decode_load(contexts: list[int]) -> StepLoad:
    return StepLoad.of((context, 1, True) for context in contexts)


@given(ROWS)
def test_load_counts_what_the_rows_do(rows: list[tuple[int, int, bool]]) -> None:
    load = StepLoad.of(rows)
    pairs = sum(context + 1 + i for context, extend, _ in rows for i in range(extend))
    assert load.attention_pairs == pairs
    assert load.num_tokens == sum(extend for _, extend, _ in rows)
    assert load.kv_read_tokens == sum(context + extend for context, extend, _ in rows)
    assert load.num_rows == sum(needs for _, _, needs in rows)
    assert load.decode_pairs == sum(context + 1 for context, extend, _ in rows if extend == 1)
    assert load.prefill_pairs + load.decode_pairs == pairs


def test_negative_counts_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="num_rows=-1"):
        StepLoad(num_tokens=1, num_rows=-1, attention_pairs=1, kv_read_tokens=1)
    with pytest.raises(InvalidArgument, match="no more decode pairs"):
        StepLoad(num_tokens=1, num_rows=1, attention_pairs=1, kv_read_tokens=1, decode_pairs=2)
    with pytest.raises(InvalidArgument, match="context -2"):
        StepLoad.of([(-2, 1, True)])


def test_nothing_to_compute_takes_no_time() -> None:
    cost = CostModel(LLAMA_8B, H100)
    assert cost.step_ps(StepLoad.of([])) == 0
    assert cost.decode_run_ps(StepLoad.of([]), 10) == 0


def test_step_is_overhead_plus_the_larger_of_compute_and_memory() -> None:
    cost = CostModel(LLAMA_8B, H100)
    for rows in ([(0, 8000, True)], [(1000, 1, True)]):
        load = StepLoad.of(rows)
        longer = max(cost.compute_ps(load), cost.memory_ps(load))
        assert cost.step_ps(load) == cost.coefficients.step_overhead + longer


def test_prefill_is_bound_by_compute_and_decode_by_memory() -> None:
    cost = CostModel(LLAMA_8B, H100)
    prefill, decode = StepLoad.of([(0, 8000, True)]), decode_load([1000])
    assert cost.compute_ps(prefill) > cost.memory_ps(prefill)
    assert cost.compute_ps(decode) < cost.memory_ps(decode)


def test_times_are_those_of_a_real_gpu() -> None:
    cost = CostModel(LLAMA_8B, H100)
    decode_s = cost.step_ps(decode_load([1000])) / 1e12
    prefill_s = cost.step_ps(StepLoad.of([(0, 8192, True)])) / 1e12
    assert 0.005 < decode_s < 0.009
    assert 20_000 < 8192 / prefill_s < 50_000


def test_a_cached_prefix_saves_its_own_work_but_is_still_looked_at() -> None:
    cost = CostModel(LLAMA_8B, H100)
    cold = cost.step_ps(StepLoad.of([(0, 8000, True)]))
    warm = cost.step_ps(StepLoad.of([(7000, 1000, True)]))
    alone = cost.step_ps(StepLoad.of([(0, 1000, True)]))
    assert alone < warm < cold / 4


def test_rows_without_logits_skip_the_output_head() -> None:
    cost = CostModel(LLAMA_8B, H100)
    with_logits, without = StepLoad.of([(0, 4096, True)]), StepLoad.of([(0, 4096, False)])
    head = cost.coefficients.compute_row
    assert cost.compute_ps(with_logits) - cost.compute_ps(without) == head > 0


CONTEXTS = st.lists(st.integers(0, 200), min_size=1, max_size=4)
RATES = st.integers(10**9, 10**13)


@given(CONTEXTS, st.integers(0, 60), RATES, RATES)
def test_decode_run_equals_the_loop_over_its_steps(
    contexts: list[int], num_steps: int, flops: int, bandwidth: int
) -> None:
    cost = CostModel(TINY, tiny_gpu(flops=flops, bandwidth=bandwidth))
    loop = sum(cost.step_ps(decode_load([c + k for c in contexts])) for k in range(num_steps))
    assert cost.decode_run_ps(decode_load(contexts), num_steps) == loop


COEFFICIENT = st.integers(1, 40)


@given(
    CONTEXTS,
    st.integers(0, 40),
    st.tuples(*[COEFFICIENT] * 4),
    st.tuples(st.integers(0, 4000), COEFFICIENT, COEFFICIENT),
)
def test_decode_run_equals_the_loop_whichever_side_leads_first(
    contexts: list[int],
    num_steps: int,
    compute: tuple[int, int, int, int],
    memory: tuple[int, int, int],
) -> None:
    cost = CostModel(TINY, H100)
    changed = cost.coefficients._replace(
        step_overhead=compute[0],
        compute_token=compute[1],
        compute_row=compute[2],
        compute_pair=compute[3],
        memory_weights=memory[0],
        memory_kv_read_token=memory[1],
        memory_kv_write_token=memory[2],
    )
    object.__setattr__(cost, "coefficients", changed)
    loop = sum(cost.step_ps(decode_load([c + k for c in contexts])) for k in range(num_steps))
    assert cost.decode_run_ps(decode_load(contexts), num_steps) == loop


def test_decode_run_refuses_steps_that_are_not_pure_decode() -> None:
    cost = CostModel(LLAMA_8B, H100)
    with pytest.raises(InvalidArgument, match="not 8 for 1 rows"):
        cost.decode_run_ps(StepLoad.of([(0, 8, True)]), 2)
    with pytest.raises(InvalidArgument, match="num_steps -1"):
        cost.decode_run_ps(decode_load([1]), -1)


def test_tensor_parallelism_splits_work_and_adds_communication() -> None:
    one, four = CostModel(LLAMA_8B, H100), CostModel(LLAMA_8B, H100, tp=4)
    assert one.coefficients.all_reduce_step == one.coefficients.all_reduce_token == 0
    assert four.coefficients.all_reduce_token > 0
    for name in ("compute_token", "compute_row", "memory_weights", "memory_kv_read_token"):
        whole, quarter = getattr(one.coefficients, name), getattr(four.coefficients, name)
        assert abs(whole - 4 * quarter) <= 4


def test_kv_heads_are_replicated_when_there_are_more_gpus() -> None:
    eight, sixteen = CostModel(LLAMA_70B, H100, tp=8), CostModel(LLAMA_70B, H100, tp=16)
    per_head = LLAMA_70B.kv_bytes_per_token("bf16") // LLAMA_70B.kv_heads
    assert eight.placement.kv_bytes_per_token == per_head
    assert sixteen.placement.kv_bytes_per_token == per_head


def test_a_degree_that_leaves_heads_over_lists_those_that_work() -> None:
    with pytest.raises(InvalidConfig, match=r"tp 3 does not divide .* possible are 1, 2, 4, 8, 16"):
        CostModel(LLAMA_8B, H100, tp=3)
    with pytest.raises(InvalidConfig, match="tp 0"):
        CostModel(LLAMA_8B, H100, tp=0)


def test_fp8_weights_are_read_and_multiplied_faster() -> None:
    bf16 = CostModel(LLAMA_8B, H100).coefficients
    fp8 = CostModel(LLAMA_8B, H100, weight_dtype="fp8").coefficients
    assert fp8.compute_token == pytest.approx(bf16.compute_token / 2, rel=1e-6)
    assert fp8.memory_weights < bf16.memory_weights * 0.6
    assert fp8.compute_pair == bf16.compute_pair


def test_fp8_kv_is_read_twice_as_fast_and_doubles_the_pool() -> None:
    bf16, fp8 = CostModel(LLAMA_8B, H100), CostModel(LLAMA_8B, H100, kv_dtype="fp8")
    assert abs(bf16.coefficients.memory_kv_read_token - 2 * fp8.coefficients.memory_kv_read_token) <= 2
    assert fp8.pool_tokens() // 2 == bf16.pool_tokens()


def test_a_gpu_that_cannot_compute_in_the_dtype_is_refused() -> None:
    with pytest.raises(UnknownName, match="A100-80GB 'fp8'"):
        CostModel(LLAMA_8B, find_gpu("A100-80GB"), weight_dtype="fp8")
    with pytest.raises(UnknownName, match="unknown dtype 'int3'"):
        CostModel(LLAMA_8B, H100, kv_dtype="int3")


@pytest.mark.parametrize(
    "setting",
    [
        {"flops_fraction": 0.0},
        {"flops_fraction": 1.1},
        {"bandwidth_fraction": -0.5},
        {"bandwidth_fraction": float("nan")},
        {"launch_overhead_s": -1.0},
        {"all_reduce_latency_s": float("inf")},
    ],
)
def test_settings_out_of_range_are_named(setting: dict[str, Any]) -> None:
    (name, value) = next(iter(setting.items()))
    with pytest.raises(InvalidConfig, match=f"{name} {value}"):
        CostModel(LLAMA_8B, H100, **setting)


def test_pool_is_what_weights_and_working_memory_leave() -> None:
    cost = CostModel(LLAMA_8B, H100)
    tokens = cost.pool_tokens(page_size=16)
    assert tokens % 16 == 0
    used = tokens * 131072 + cost.placement.fixed_bytes(8192)
    assert 0.9 * 80e9 - 16 * 131072 < used <= 0.9 * 80e9
    assert 350_000 < tokens < 450_000


def test_weights_that_do_not_fit_name_their_size_and_the_smallest_degree_that_does() -> None:
    with pytest.raises(ModelDoesNotFit, match=r"weights are 141\.1 GB.*tp 4 would fit") as e:
        CostModel(LLAMA_70B, H100, tp=2).pool_tokens()
    assert e.value.smallest_tp == 4
    assert e.value.needed_bytes > e.value.usable_bytes == 72 * 10**9
    assert CostModel(LLAMA_70B, H100, tp=4).pool_tokens() > 0


def test_a_model_that_fits_nowhere_says_so() -> None:
    with pytest.raises(ModelDoesNotFit, match="no tp would fit"):
        CostModel(LLAMA_70B, H100).pool_tokens(memory_fraction=0.01)


@pytest.mark.parametrize(
    "argument", [{"memory_fraction": 0.0}, {"memory_fraction": 1.5}, {"page_size": 0}, {"chunk_tokens": 0}]
)
def test_pool_arguments_out_of_range_are_named(argument: dict[str, Any]) -> None:
    (name, value) = next(iter(argument.items()))
    with pytest.raises(InvalidConfig, match=f"{name} {value}"):
        CostModel(LLAMA_8B, H100).pool_tokens(**argument)


def test_description_is_json_and_names_every_assumption() -> None:
    described = CostModel(LLAMA_8B, H100, tp=2, kv_dtype="fp8").describe()
    assert json.loads(json.dumps(described)) == described
    for name in ("flops_fraction", "bandwidth_fraction", "launch_overhead_s", "gpu_source"):
        assert described[name]
    assert "0.76" in json.dumps(described["assumptions"])
