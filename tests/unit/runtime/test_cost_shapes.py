import pytest

from radixcache.errors import RadixCacheError, UnknownName
from runtime.cost import GPUS, MODELS, find_gpu, find_model

PUBLISHED_PARAMETERS = {
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-14B": 14_768_307_200,
    "Qwen3-32B": 32_762_123_264,
    "Qwen2.5-7B": 7_615_616_512,
    "Mistral-7B-v0.3": 7_248_023_552,
    "SmolLM2-135M": 134_515_008,
}


def test_every_model_has_a_published_count_to_be_held_against() -> None:
    assert MODELS.keys() == PUBLISHED_PARAMETERS.keys()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parameters_equal_the_published_count(name: str) -> None:
    assert MODELS[name].num_parameters == PUBLISHED_PARAMETERS[name]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model_names_its_source_and_has_grouped_heads(name: str) -> None:
    model = MODELS[name]
    assert "config.json" in model.source
    assert model.heads % model.kv_heads == 0


def test_kv_bytes_of_a_token() -> None:
    model = find_model("Llama-3.1-8B")
    assert model.kv_bytes_per_token("bf16") == 2 * 32 * 8 * 128 * 2
    assert model.kv_bytes_per_token("fp8") == 2 * 32 * 8 * 128


def test_fp8_halves_the_blocks_but_not_the_tables() -> None:
    model = find_model("Llama-3.1-8B")
    tables = 2 * model.embedding_parameters * 2
    assert model.weight_bytes("bf16") == 2 * model.num_parameters
    assert model.weight_bytes("fp8") == model.block_parameters + tables


def test_a_step_streams_a_tied_table_once_and_no_untied_input_embedding() -> None:
    tied, untied = find_model("Qwen3-4B"), find_model("Qwen3-8B")
    assert tied.streamed_bytes("bf16") == tied.weight_bytes("bf16")
    embedding = 2 * untied.embedding_parameters
    assert untied.streamed_bytes("bf16") == untied.weight_bytes("bf16") - embedding


@pytest.mark.parametrize("name", sorted(GPUS))
def test_gpu_figures_are_plausible_and_sourced(name: str) -> None:
    gpu = GPUS[name]
    assert "data sheet" in gpu.source
    assert 24e9 <= gpu.memory_bytes <= 200e9
    assert 0.05 < gpu.bandwidth / gpu.peak("bf16") * 100 < 1
    assert gpu.link_bandwidth < gpu.bandwidth


@pytest.mark.parametrize("name", sorted(name for name in GPUS if "fp8" in GPUS[name].peak_flops))
def test_fp8_peak_is_twice_the_bf16_peak_so_neither_counts_sparsity(name: str) -> None:
    assert GPUS[name].peak("fp8") == pytest.approx(2 * GPUS[name].peak("bf16"), rel=0.02)


def test_dense_peaks_not_sparse_ones() -> None:
    assert find_gpu("A100-80GB").peak("bf16") == 312 * 10**12
    assert find_gpu("H100-SXM").peak("bf16") == pytest.approx(989.5e12)


def test_unknown_gpu_offers_the_nearest_names() -> None:
    with pytest.raises(UnknownName, match="unknown GPU 'h100': did you mean H100") as caught:
        find_gpu("h100")
    assert set(caught.value.nearest[:2]) == {"H100-PCIe", "H100-SXM"}
    assert isinstance(caught.value, RadixCacheError)
    assert isinstance(caught.value, ValueError)


def test_unknown_model_offers_the_nearest_names() -> None:
    with pytest.raises(UnknownName, match=r"did you mean Llama-3\.1-8B"):
        find_model("llama-3-8b")


def test_a_name_like_no_other_lists_what_is_known() -> None:
    with pytest.raises(UnknownName, match="unknown model '': known are"):
        find_model("")


def test_unknown_dtype_is_named() -> None:
    with pytest.raises(UnknownName, match="unknown dtype 'int7'"):
        find_model("Qwen3-8B").weight_bytes("int7")
    with pytest.raises(UnknownName, match="unknown dtype 'fp-8': did you mean fp8"):
        find_gpu("L4").peak("fp-8")


def test_a_gpu_without_fp8_units_says_so() -> None:
    with pytest.raises(UnknownName, match="compute dtype of A100-80GB 'fp8'"):
        find_gpu("A100-80GB").peak("fp8")
