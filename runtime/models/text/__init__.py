"""Tokenizers and chat templates of models."""

from pathlib import Path

from runtime.models.loading.gguf_file import GgufFile
from runtime.models.loading.named import locate
from runtime.models.text.codec import TextCodec
from runtime.models.text.gguf import codec_from_gguf
from runtime.models.text.huggingface import codec_from_huggingface
from runtime.models.text.stream import TextStream
from runtime.models.text.template import ChatTemplate, Message


def load_text(path_or_name: Path | str) -> TextCodec:
    """The codec of a Hugging Face folder or a GGUF file, or of a name in `NAMED_MODELS`.

    Raises:
        UnknownName: There is no such file, folder or name.
        ModelFileError: A file is missing or damaged.
        UnsupportedModel: The tokenizer is of a kind that is not read.
        ChatTemplateError: The chat template does not compile.
        MissingPackage: A package that reads or contains the model is not installed.
    """
    path = locate(path_or_name)
    return codec_from_huggingface(path) if path.is_dir() else codec_from_gguf(GgufFile(path))


__all__ = ["ChatTemplate", "Message", "TextCodec", "TextStream", "load_text"]
