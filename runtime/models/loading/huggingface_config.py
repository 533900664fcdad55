"""`config.json` of a Hugging Face folder as a `ModelConfig`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.models.config import ModelConfig
from runtime.models.errors import ModelFileError, UnsupportedModel
from runtime.models.loading.fields import Fields
from runtime.models.loading.rope_config import rope_base, rope_fields, rope_scaling


@dataclass(frozen=True, slots=True)
class _Architecture:
    name: str
    qkv_bias: bool = False
    biases_are_a_choice: bool = True
    qk_norm: bool = False
    head_dim: int | None = None
    """What an absent `head_dim` means; None: hidden / heads."""


_ARCHITECTURES: Final = {
    "llama": _Architecture("LlamaForCausalLM"),
    "mistral": _Architecture("MistralForCausalLM", biases_are_a_choice=False),
    "qwen2": _Architecture("Qwen2ForCausalLM", qkv_bias=True, biases_are_a_choice=False),
    "qwen3": _Architecture("Qwen3ForCausalLM", qk_norm=True, head_dim=128),
}
"""`model_type` -> what it does by itself."""

_ONLY: Final[Mapping[str, object]] = {
    "hidden_act": "silu",
    "mlp_bias": False,
    "partial_rotary_factor": 1.0,
    "quantization_config": None,
    "is_encoder_decoder": False,
}
"""Fields with the one value that is supported; absent is the same."""


def config_from_huggingface(values: Mapping[str, object], path: Path = Path("config.json")) -> ModelConfig:
    """The configuration that a `config.json` describes.

    Both ways to write the rotary scaling are understood: `rope_scaling` beside `rope_theta`, and the one
    dictionary `rope_parameters` of newer files.

    Args:
        values: The file's content.
        path: Its name, for messages.

    Raises:
        ModelFileError: A field is missing or of a wrong type.
        UnsupportedModel: A field has a value that the decoder does not compute; the message names both.
        InvalidConfig: Numbers contradict each other.
    """
    fields = Fields(path, values)
    architecture = _architecture(fields)
    _refuse_the_unsupported(fields)
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    if heads < 1:
        raise ModelFileError(path, f"num_attention_heads must be at least 1, not {heads}")
    biases = architecture.biases_are_a_choice and fields.flag("attention_bias", False)
    max_context = fields.integer("max_position_embeddings")
    rope = rope_fields(fields)
    return ModelConfig(
        layers=fields.integer("num_hidden_layers"),
        hidden=hidden,
        intermediate=fields.integer("intermediate_size"),
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads", heads),
        head_dim=fields.integer("head_dim", architecture.head_dim or hidden // heads),
        vocab=fields.integer("vocab_size"),
        max_context=max_context,
        tied_embeddings=fields.flag("tie_word_embeddings", False),
        qkv_bias=architecture.qkv_bias or biases,
        output_bias=biases,
        qk_norm=architecture.qk_norm,
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        rope_base=rope_base(rope, fields),
        rope_scaling=rope_scaling(rope, max_context),
        eos_ids=fields.token_ids("eos_token_id"),
    )


def _architecture(fields: Fields) -> _Architecture:
    model_type = fields.text("model_type")
    if model_type not in _ARCHITECTURES:
        raise UnsupportedModel("model_type", model_type, f"known are {', '.join(_ARCHITECTURES)}")
    architecture = _ARCHITECTURES[model_type]
    named = fields.get("architectures")
    if named is not None and named != [architecture.name]:
        raise UnsupportedModel(
            "architectures", named, f"a {model_type} model must be [{architecture.name!r}]"
        )
    return architecture


def _refuse_the_unsupported(fields: Fields) -> None:
    for name, only in _ONLY.items():
        value = fields.get(name)
        if value is not None and value != only:
            raise UnsupportedModel(name, value, f"it must be absent{'' if only is None else f' or {only!r}'}")
    # Qwen files name a window that they do not use; Mistral files have no such switch.
    window = fields.get("sliding_window")
    if window is not None and fields.flag("use_sliding_window", fields.text("model_type") == "mistral"):
        raise UnsupportedModel("sliding_window", window, "every token attends to all before it")
    kinds = fields.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds)):
        raise UnsupportedModel("layer_types", kinds, "every layer must be 'full_attention'")
