"""Decoders from files, from packages and from nothing."""

from pathlib import Path

import torch

from runtime.models.decoder import Decoder
from runtime.models.loading.gguf import load_gguf
from runtime.models.loading.gguf_file import GgufFile
from runtime.models.loading.huggingface import load_huggingface
from runtime.models.loading.named import NAMED_MODELS, locate
from runtime.models.loading.random import random_model


def load_model(
    path_or_name: Path | str,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> Decoder:
    """The decoder in a Hugging Face folder or a GGUF file, or of a name in `NAMED_MODELS`.

    Raises:
        UnknownName: There is no such file, folder or name.
        ModelFileError: A file is missing or damaged, or its tensors are not those of its configuration.
        UnsupportedModel: The configuration asks for what the decoder does not compute.
        MissingPackage: A package that reads or contains the model is not installed.
        InvalidConfig: No such dtype, or numbers of the configuration contradict each other.
    """
    path = locate(path_or_name)
    where = torch.device(device)
    if path.is_dir():
        return load_huggingface(path, dtype=dtype, device=where)
    return load_gguf(GgufFile(path), dtype=dtype, device=where)


__all__ = ["NAMED_MODELS", "load_model", "locate", "random_model"]
