"""Transformers that run on the paged cache: Llama, Mistral, Qwen2 and Qwen3, from files or from a seed."""

from runtime.models.config import ModelConfig
from runtime.models.decoder import Decoder
from runtime.models.errors import (
    ChatTemplateError,
    MissingPackage,
    ModelFileError,
    UnsupportedModel,
    WeightsMismatch,
)
from runtime.models.loading import NAMED_MODELS, load_model, locate, random_model
from runtime.models.text import TextCodec, TextStream, load_text
from runtime.models.together import load_model_and_text

__all__ = [
    "NAMED_MODELS",
    "ChatTemplateError",
    "Decoder",
    "MissingPackage",
    "ModelConfig",
    "ModelFileError",
    "TextCodec",
    "TextStream",
    "UnsupportedModel",
    "WeightsMismatch",
    "load_model",
    "load_model_and_text",
    "load_text",
    "locate",
    "random_model",
]
