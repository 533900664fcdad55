"""Weights and tokenizer of one model at once."""

from pathlib import Path

import torch

from runtime.models.decoder import Decoder
from runtime.models.loading import locate
from runtime.models.loading.gguf import load_gguf
from runtime.models.loading.gguf_file import GgufFile
from runtime.models.loading.huggingface import load_huggingface
from runtime.models.text import TextCodec
from runtime.models.text.gguf import codec_from_gguf
from runtime.models.text.huggingface import codec_from_huggingface


def load_model_and_text(
    path_or_name: Path | str,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> tuple[Decoder, TextCodec]:
    """What `load_model` and `load_text` give, with a GGUF file read once: to parse one takes seconds.

    Raises:
        RadixCacheError: See `load_model` and `load_text`.
    """
    path, where = locate(path_or_name), torch.device(device)
    if path.is_dir():
        return load_huggingface(path, dtype=dtype, device=where), codec_from_huggingface(path)
    file = GgufFile(path)
    return load_gguf(file, dtype=dtype, device=where), codec_from_gguf(file)
