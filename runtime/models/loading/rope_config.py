"""The rotary part of a `config.json`: two spellings, five kinds."""

import math
from collections.abc import Mapping

from runtime.models.errors import ModelFileError, UnsupportedModel
from runtime.models.loading.fields import Fields
from runtime.models.rope import DynamicNtk, Linear, Llama3, RopeScaling, Unscaled, Yarn

_DEFAULT_BASE = 10_000.0


def rope_fields(fields: Fields) -> Fields:
    """The dictionary that says how positions are scaled, or an empty one.

    Raises:
        ModelFileError: It is no dictionary.
        UnsupportedModel: It holds one dictionary for each kind of layer.
    """
    name = "rope_parameters" if "rope_parameters" in fields else "rope_scaling"
    values = fields.get(name) or {}
    if not isinstance(values, Mapping):
        raise ModelFileError(fields.path, f"{name} must be a dictionary, not {values!r}")
    nested = [key for key, value in values.items() if isinstance(value, Mapping)]
    if nested:
        raise UnsupportedModel(f"{name}.{nested[0]}", values[nested[0]], "all layers share one rotation")
    rope = Fields(fields.path, values)
    share = rope.number("partial_rotary_factor", 1.0)
    if share != 1.0:
        raise UnsupportedModel(f"{name}.partial_rotary_factor", share, "whole heads are rotated")
    outside = fields.get("original_max_position_embeddings")
    if outside is not None:
        rope = Fields(fields.path, {**values, "original_max_position_embeddings": outside})
    return rope


def rope_base(rope: Fields, fields: Fields) -> float:
    """The base of the frequencies, inside the dictionary or beside it.

    Raises:
        ModelFileError: It is no number.
    """
    return rope.number("rope_theta", fields.number("rope_theta", _DEFAULT_BASE))


def rope_scaling(rope: Fields, max_context: int) -> RopeScaling:
    """How the frequencies are scaled.

    Raises:
        ModelFileError: A number is missing or is none.
        UnsupportedModel: The kind is not known.
        InvalidConfig: A number lies outside its range.
    """
    kind = rope.text("rope_type", rope.text("type", "default"))
    match kind:
        case "default":
            return Unscaled()
        case "linear":
            return Linear(rope.number("factor"))
        case "dynamic":
            return DynamicNtk(rope.number("factor"), max_context)
        case "llama3":
            return _llama3(rope, max_context)
        case "yarn":
            return _yarn(rope, max_context)
        case _:
            raise UnsupportedModel("rope_type", kind, "known are default, linear, dynamic, llama3, yarn")


def _llama3(rope: Fields, max_context: int) -> RopeScaling:
    return Llama3(
        factor=rope.number("factor"),
        low_freq_factor=rope.number("low_freq_factor"),
        high_freq_factor=rope.number("high_freq_factor"),
        trained_context=rope.integer("original_max_position_embeddings", max_context),
    )


def _yarn(rope: Fields, max_context: int) -> RopeScaling:
    trained = rope.integer("original_max_position_embeddings", max_context)
    factor = rope.number("factor", max_context / trained)
    return Yarn(
        factor=factor,
        trained_context=trained,
        attention_factor=rope.number("attention_factor", _yarn_attention_factor(rope, factor)),
        beta_fast=rope.number("beta_fast", 32.0),
        beta_slow=rope.number("beta_slow", 1.0),
        truncate=rope.flag("truncate", True),
    )


def _yarn_attention_factor(rope: Fields, factor: float) -> float:
    numerator, denominator = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    if numerator and denominator:
        return yarn_temperature(factor, numerator) / yarn_temperature(factor, denominator)
    return yarn_temperature(factor)


def yarn_temperature(factor: float, scale: float = 1.0) -> float:
    """What YaRN multiplies cosines and sines by: 0.1 * scale * ln(factor) + 1."""
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0
