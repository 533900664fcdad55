"""Metadata of a GGUF file as a `ModelConfig`."""

from typing import Final

from runtime.models.config import ModelConfig
from runtime.models.errors import ModelFileError, UnsupportedModel
from runtime.models.loading.fields import Fields
from runtime.models.loading.gguf_file import ROPE_DIVISORS, GgufFile
from runtime.models.loading.rope_config import yarn_temperature
from runtime.models.rope import Divided, Linear, RopeScaling, Unscaled, Yarn

_ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
_EMBEDDING: Final = "token_embd.weight"
_END_TOKENS: Final = ("eos_token_id", "eot_token_id")


def config_from_gguf(file: GgufFile) -> ModelConfig:
    """The configuration that the metadata describes; biases, norms and a tied head are told by the tensors.

    Raises:
        ModelFileError: A value is missing or of a wrong type.
        UnsupportedModel: The decoder does not compute what a value says.
        InvalidConfig: Numbers contradict each other.
    """
    architecture = file.architecture
    if architecture not in _ARCHITECTURES:
        raise UnsupportedModel("general.architecture", architecture, f"known are {', '.join(_ARCHITECTURES)}")
    fields = file.fields(f"{architecture}.")
    _refuse_the_unsupported(file, fields)
    hidden, heads = fields.integer("embedding_length"), fields.integer("attention.head_count")
    if heads < 1:
        raise ModelFileError(
            file.path, f"{architecture}.attention.head_count must be at least 1, not {heads}"
        )
    head_dim = fields.integer("attention.key_length", hidden // heads)
    _refuse_other_widths(fields, head_dim)
    max_context = fields.integer("context_length")
    tensors = file.tensor_shapes
    return ModelConfig(
        layers=fields.integer("block_count"),
        hidden=hidden,
        intermediate=fields.integer("feed_forward_length"),
        heads=heads,
        kv_heads=fields.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab=tensors[_EMBEDDING][0],
        max_context=max_context,
        tied_embeddings="output.weight" not in tensors,
        qkv_bias="blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        qk_norm="blk.0.attn_q_norm.weight" in tensors,
        norm_eps=fields.number("attention.layer_norm_rms_epsilon"),
        rope_base=fields.number("rope.freq_base", 10_000.0),
        rope_scaling=_rope_scaling(file, fields, max_context),
        eos_ids=end_tokens(file.fields("tokenizer.ggml.")),
    )


def end_tokens(tokenizer: Fields) -> tuple[int, ...]:
    """Tokens that end an answer, without repeats."""
    return tuple(dict.fromkeys(each for name in _END_TOKENS for each in tokenizer.token_ids(name)))


def _refuse_the_unsupported(file: GgufFile, fields: Fields) -> None:
    if _EMBEDDING not in file.tensor_shapes:
        raise ModelFileError(file.path, f"holds no {_EMBEDDING}; is it one part of several?")
    for name in ("expert_count", "attention.sliding_window"):
        if fields.integer(name, 0):
            raise UnsupportedModel(f"{file.architecture}.{name}", fields.get(name), "it must be absent or 0")


def _refuse_other_widths(fields: Fields, head_dim: int) -> None:
    for name in ("attention.value_length", "rope.dimension_count"):
        if fields.integer(name, head_dim) != head_dim:
            raise UnsupportedModel(name, fields.get(name), f"it must be the width of a head, {head_dim}")


def _rope_scaling(file: GgufFile, fields: Fields, max_context: int) -> RopeScaling:
    kind = fields.text("rope.scaling.type", "none")
    if ROPE_DIVISORS in file.tensor_shapes:
        if kind != "none":
            raise UnsupportedModel(
                "rope.scaling.type", kind, f"beside the tensor {ROPE_DIVISORS} it must be 'none'"
            )
        return Divided(tuple(file.tensor(ROPE_DIVISORS).tolist()))
    match kind:
        case "none":
            return Unscaled()
        case "linear":
            return Linear(fields.number("rope.scaling.factor"))
        case "yarn":
            return _yarn(fields, max_context)
        case _:
            raise UnsupportedModel("rope.scaling.type", kind, "known are none, linear, yarn")


def _yarn(fields: Fields, max_context: int) -> RopeScaling:
    factor = fields.number("rope.scaling.factor")
    return Yarn(
        factor=factor,
        trained_context=fields.integer("rope.scaling.original_context_length", max_context),
        attention_factor=fields.number("rope.scaling.attn_factor", 1.0) * yarn_temperature(factor),
        beta_fast=fields.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=fields.number("rope.scaling.yarn_beta_slow", 1.0),
    )
