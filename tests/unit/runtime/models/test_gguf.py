"""GGUF files: the same decoder as from the Hugging Face folder, and what is refused."""

import sys

import gguf
import numpy as np
import pytest
import torch

from runtime.models import MissingPackage, ModelFileError, UnsupportedModel, WeightsMismatch, load_model
from runtime.models.rope import Divided, Linear
from tests.unit.runtime.models.checkpoints import saved, transformer
from tests.unit.runtime.models.dense import DenseEngine
from tests.unit.runtime.models.gguf_files import write_gguf

MODELS = {
    "llama": ("llama", {}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, biases": ("llama", {"attention_bias": True}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 12}),
    "qwen2": ("qwen2", {"head_dim": 8}),
    "qwen3": ("qwen3", {"head_dim": 16}),
}
TOKENS = [5, 2, 90, 33, 33, 1, 0, 41]


def logits(decoder):
    engine = DenseEngine(decoder, room=40)
    engine.rows[0].tokens = TOKENS * 5
    return engine.step(every_row=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_gguf_file_holds_the_same_decoder_to_the_bit(name, tmp_path):
    model_type, settings = MODELS[name]
    model = transformer(model_type, **settings)
    theirs = load_model(saved(model, tmp_path / "folder"))
    ours = load_model(write_gguf(tmp_path / "model.gguf", model))
    assert ours.config.qkv_bias == theirs.config.qkv_bias
    assert torch.equal(logits(ours), logits(theirs))


def test_quantised_tensors_are_dequantised(tmp_path):
    model = transformer("llama", hidden_size=64, intermediate_size=96, num_attention_heads=4)
    exact = load_model(saved(model, tmp_path / "folder"))
    path = write_gguf(tmp_path / "model.gguf", model, quantise=gguf.GGMLQuantizationType.Q8_0)
    ours, theirs = logits(load_model(path)), logits(exact)
    assert 0 < (ours - theirs).abs().max() < 0.1 * theirs.abs().max()


def test_rope_divisors_scale_like_llama3(tmp_path):
    scaling = {
        "rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 24,
    }  # fmt: skip
    model = transformer("llama", rope_parameters=scaling)
    exact = load_model(saved(model, tmp_path / "folder"))
    plain = 500.0 ** (-np.arange(0, 8, 2) / 8)
    divisors = plain / exact.config.rope_scaling.frequencies(500.0, 8, 64).numpy()
    path = write_gguf(
        tmp_path / "model.gguf", model, tensors={"rope_freqs.weight": divisors.astype(np.float32)}
    )
    decoder = load_model(path)
    assert isinstance(decoder.config.rope_scaling, Divided)
    assert torch.allclose(logits(decoder), logits(exact), atol=1e-4)


def test_linear_and_yarn_scaling_are_read(tmp_path):
    yarn = {
        "rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16,
        "beta_fast": 8.0,
    }  # fmt: skip
    model = transformer("qwen2", rope_parameters=yarn, head_dim=8)
    exact = load_model(saved(model, tmp_path / "folder"))
    metadata = {
        "qwen2.rope.scaling.type": "yarn",
        "qwen2.rope.scaling.factor": 4.0,
        "qwen2.rope.scaling.original_context_length": 16,
        "qwen2.rope.scaling.yarn_beta_fast": 8.0,
    }
    decoder = load_model(write_gguf(tmp_path / "yarn.gguf", model, metadata=metadata))
    assert decoder.config.rope_scaling == exact.config.rope_scaling
    metadata = {"qwen2.rope.scaling.type": "linear", "qwen2.rope.scaling.factor": 2.0}
    path = write_gguf(tmp_path / "linear.gguf", model, metadata=metadata)
    assert load_model(path).config.rope_scaling == Linear(2.0)


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"general.architecture": "gemma"}, "general.architecture = 'gemma'"),
        ({"llama.expert_count": 8}, "llama.expert_count = 8"),
        ({"llama.attention.sliding_window": 4096}, "llama.attention.sliding_window = 4096"),
        ({"llama.attention.value_length": 4}, "attention.value_length = 4"),
        ({"llama.rope.dimension_count": 4}, "rope.dimension_count = 4"),
        ({"llama.rope.scaling.type": "longrope"}, "rope.scaling.type = 'longrope'"),
    ],
)
def test_what_is_not_computed_is_refused_by_name_and_value(metadata, named, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", transformer("llama"), metadata=metadata)
    with pytest.raises(UnsupportedModel) as caught:
        load_model(path)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"llama.block_count": None}, "llama.block_count is missing"),
        (
            {"llama.attention.head_count": "six"},
            "attention.head_count must be a whole number, not 'six'",
        ),
        ({"llama.attention.head_count": 0}, "attention.head_count must be at least 1, not 0"),
    ],
)
def test_broken_metadata_is_named(metadata, named, tmp_path):
    path = write_gguf(tmp_path / "model.gguf", transformer("llama"), metadata=metadata)
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert named in str(caught.value)


def test_missing_and_unknown_tensors_are_named(tmp_path):
    extra = {"blk.0.attn_sinks": np.zeros(6, np.float32)}
    path = write_gguf(
        tmp_path / "model.gguf", transformer("llama"), tensors=extra, leave_out="blk.1.ffn_up.weight"
    )
    with pytest.raises(WeightsMismatch) as caught:
        load_model(path)
    assert caught.value.missing == ("model.layers.1.mlp.up_proj.weight",)
    assert caught.value.unexpected == ("blk.0.attn_sinks",)


def test_a_part_without_the_embedding_is_refused(tmp_path):
    path = write_gguf(tmp_path / "model.gguf", transformer("llama"), leave_out="token_embd.weight")
    with pytest.raises(ModelFileError, match="is it one part of several"):
        load_model(path)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04" * 40])
def test_what_is_no_gguf_file_is_refused(content, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="no GGUF file"):
        load_model(path)


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    path = write_gguf(tmp_path / "model.gguf", transformer("llama"))
    whole = path.read_bytes()
    for share in (0.01, 0.5, 0.99):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(ModelFileError):
            load_model(path)


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingPackage, match="pip install gguf"):
        load_model(path)
