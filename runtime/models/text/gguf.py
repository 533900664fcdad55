"""Tokenizer and chat template of a GGUF file, from its metadata."""

from typing import TYPE_CHECKING, Final

from runtime.models.errors import ModelFileError, UnsupportedModel
from runtime.models.loading.fields import Fields
from runtime.models.loading.gguf_config import end_tokens
from runtime.models.loading.gguf_file import GgufFile
from runtime.models.text.codec import TextCodec
from runtime.models.text.library import tokenizers_library
from runtime.models.text.splitting import SPLITTINGS
from runtime.models.text.template import ChatTemplate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PREFIX: Final = "tokenizer.ggml."
_CONTROL: Final = 3
_USER_DEFINED: Final = 4
"""These two kinds of tokens are found in a text before it is split."""

_SPECIAL: Final = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def codec_from_gguf(file: GgufFile) -> TextCodec:
    """The codec of a file.

    Raises:
        UnsupportedModel: The vocabulary is no byte-level BPE, or its way of splitting is not known.
        ModelFileError: A value is missing or of a wrong type.
        ChatTemplateError: The template does not compile.
        MissingPackage: tokenizers is not installed.
    """
    fields = file.fields(_PREFIX)
    kind, splitting = fields.text("model"), fields.text("pre", "default")
    if kind != "gpt2":
        raise UnsupportedModel(f"{_PREFIX}model", kind, "known is only 'gpt2', byte-level BPE")
    if splitting not in SPLITTINGS:
        raise UnsupportedModel(f"{_PREFIX}pre", splitting, f"known are {', '.join(SPLITTINGS)}")
    tokens = fields.texts("tokens")
    tokenizer = _tokenizer(fields, tokens, splitting)
    template = file.fields("tokenizer.").text("chat_template", "")
    return TextCodec(
        tokenizer,
        eos_ids=frozenset(end_tokens(fields)),
        template=ChatTemplate(template, _special_tokens(fields, tokens)) if template else None,
    )


def _tokenizer(fields: Fields, tokens: list[str], splitting: str) -> "Tokenizer":
    library = tokenizers_library()
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        raise ModelFileError(fields.path, f"{_PREFIX}tokens names a token twice")
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in fields.texts("merges"))]
    way = SPLITTINGS[splitting]
    tokenizer: Tokenizer = library.Tokenizer(
        library.models.BPE(vocab=vocabulary, merges=merges, ignore_merges=way.whole_words)
    )
    way.apply(tokenizer)
    tokenizer.decoder = library.decoders.ByteLevel()
    kinds = fields.get("token_type")
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise ModelFileError(
            fields.path, f"{_PREFIX}token_type must hold {len(tokens)} kinds, one for each token"
        )
    for special, wanted in ((True, _CONTROL), (False, _USER_DEFINED)):
        texts = [token for token, kind in zip(tokens, kinds, strict=True) if kind == wanted]
        tokenizer.add_tokens([library.AddedToken(text, special=special, normalized=False) for text in texts])
    _add_first_and_last(fields, tokenizer, tokens)
    return tokenizer


def _add_first_and_last(fields: Fields, tokenizer: "Tokenizer", tokens: list[str]) -> None:
    """Let `encode` put a token before or behind a text where the file says so."""
    names = [name for name in ("bos", "eos") if fields.flag(f"add_{name}_token", False)]
    if not names:
        return
    added = {name: _token(fields, f"{name}_token_id", tokens) for name in names}
    around = {name: [added[name]] if name in added else [] for name in ("bos", "eos")}
    tokenizer.post_processor = tokenizers_library().processors.TemplateProcessing(
        single=[*around["bos"], "$A", *around["eos"]],
        special_tokens=[(token, fields.integer(f"{name}_token_id")) for name, token in added.items()],
    )


def _special_tokens(fields: Fields, tokens: list[str]) -> dict[str, str]:
    return {name: _token(fields, field, tokens) for name, field in _SPECIAL.items() if field in fields}


def _token(fields: Fields, name: str, tokens: list[str]) -> str:
    number = fields.integer(name)
    if not 0 <= number < len(tokens):
        raise ModelFileError(fields.path, f"{_PREFIX}{name} = {number}, of {len(tokens)} tokens")
    return tokens[number]
