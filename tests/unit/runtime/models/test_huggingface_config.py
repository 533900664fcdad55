"""`config.json`: what is read, what is refused, and how it is said."""

import pytest

from radixcache.errors import InvalidConfig
from runtime.models import ModelConfig, ModelFileError, UnsupportedModel
from runtime.models.loading.huggingface_config import config_from_huggingface
from runtime.models.rope import DynamicNtk, Linear, Llama3, Yarn

MINIMAL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "max_position_embeddings": 2048,
}
LLAMA_31 = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}


def read(**changes):
    values = MINIMAL | changes
    return config_from_huggingface({name: value for name, value in values.items() if value != "absent"})


def test_absent_fields_have_the_defaults_of_transformers():
    assert read() == ModelConfig(
        layers=2, hidden=64, intermediate=128, heads=4, kv_heads=4, head_dim=16, vocab=100, max_context=2048,
        tied_embeddings=False, qkv_bias=False, output_bias=False, qk_norm=False, norm_eps=1e-6,
        rope_base=10_000.0,
    )  # fmt: skip


def test_architectures_bring_their_own_biases_norms_and_head_width():
    assert read(model_type="qwen2", attention_bias=False).qkv_bias
    assert not read(model_type="qwen2").output_bias
    qwen3 = read(model_type="qwen3")
    assert (qwen3.qk_norm, qwen3.qkv_bias, qwen3.head_dim) == (True, False, 128)
    assert read(model_type="qwen3", head_dim=32).head_dim == 32
    llama = read(attention_bias=True)
    assert (llama.qkv_bias, llama.output_bias) == (True, True)


def test_null_is_the_same_as_absent():
    assert read(head_dim=None, rope_scaling=None, num_key_value_heads=None, sliding_window=None) == read()


def test_end_tokens_may_be_one_or_several():
    assert read(eos_token_id=2).eos_ids == (2,)
    assert read(eos_token_id=[2, 7]).eos_ids == (2, 7)


def test_the_scaling_of_llama_31_is_read():
    config = read(rope_scaling=LLAMA_31, rope_theta=500_000.0)
    assert config.rope_base == 500_000.0
    assert config.rope_scaling == Llama3(8.0, 1.0, 4.0, 8192)
    assert read(rope_parameters=LLAMA_31 | {"rope_theta": 500_000.0}) == config


def test_yarn_takes_its_factor_from_the_lengths_where_none_is_given():
    scaling = read(rope_scaling={"type": "yarn", "original_max_position_embeddings": 512}).rope_scaling
    assert isinstance(scaling, Yarn)
    assert (scaling.factor, scaling.trained_context) == (4.0, 512)
    assert scaling.attention_factor == pytest.approx(1.1386294)


def test_other_kinds_of_scaling_are_read():
    assert read(rope_scaling={"type": "linear", "factor": 2}).rope_scaling == Linear(2.0)
    assert read(rope_scaling={"type": "dynamic", "factor": 2}).rope_scaling == DynamicNtk(2.0, 2048)
    outside = read(
        rope_scaling={"type": "yarn", "factor": 2.0}, original_max_position_embeddings=1024
    ).rope_scaling
    assert outside.trained_context == 1024


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "gemma3"}, "model_type = 'gemma3'"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures = ['LlamaForSequence"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config = {'bits': 4}"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters.partial_rotary_factor = 0.5"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding_window = 4096"),
        ({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True}, "sliding_window = 8"),
        (
            {"layer_types": ["full_attention", "sliding_attention"]},
            "layer_types = ['full_attention', 'sliding",
        ),
        ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "rope_type = 'longrope'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "default"}}},
            "rope_parameters.full_attention = ",
        ),
    ],
)
def test_what_is_not_computed_is_refused_by_name_and_value(changes, named):
    with pytest.raises(UnsupportedModel) as caught:
        read(**changes)
    assert named in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_a_window_that_is_switched_off_is_none():
    assert read(model_type="qwen2", sliding_window=4096, use_sliding_window=False) == read(model_type="qwen2")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size must be a whole number, not '64'"),
        ({"vocab_size": True}, "vocab_size must be a whole number, not True"),
        ({"num_attention_heads": 0}, "num_attention_heads must be at least 1, not 0"),
        ({"rms_norm_eps": "small"}, "rms_norm_eps must be a number, not 'small'"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings must be true or false, not 1"),
        ({"eos_token_id": [2, "</s>"]}, "eos_token_id must be token ids, not [2, '</s>']"),
        ({"rope_scaling": "linear"}, "rope_scaling must be a dictionary, not 'linear'"),
        ({"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"model_type": 3}, "model_type must be a string, not 3"),
    ],
)
def test_a_broken_field_is_named(changes, named):
    with pytest.raises(ModelFileError) as caught:
        read(**changes)
    assert str(caught.value) == f"config.json: {named}"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_key_value_heads": 3}, "heads = 4 is no multiple of kv_heads = 3"),
        ({"num_hidden_layers": 0}, "layers must be at least 1, not 0"),
        ({"head_dim": 15}, "head_dim must be even for rotary positions, not 15"),
        ({"rms_norm_eps": -1.0}, "norm_eps must not be negative, not -1.0"),
        ({"rope_theta": 0.5}, "rope_base must be above 1, not 0.5"),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor must be at least 1, not 0.5"),
        ({"rope_scaling": LLAMA_31 | {"high_freq_factor": 1.0}}, "low_freq_factor < high_freq_factor"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 0.5}}, "beta_slow < beta_fast"),
    ],
)
def test_numbers_that_contradict_each_other_are_named(changes, named):
    with pytest.raises(InvalidConfig) as caught:
        read(**changes)
    assert named in str(caught.value)


def test_the_cost_model_gets_the_same_shape():
    shape = read(model_type="qwen2", tie_word_embeddings=True).shape("tiny", "a test")
    assert (shape.name, shape.layers, shape.head_dim, shape.qkv_bias) == ("tiny", 2, 16, True)
