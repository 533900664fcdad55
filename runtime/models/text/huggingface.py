"""Tokenizer and chat template of a Hugging Face folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.models.errors import ModelFileError
from runtime.models.loading.fields import Fields
from runtime.models.loading.huggingface import read_json
from runtime.models.text.codec import TextCodec
from runtime.models.text.library import tokenizers_library
from runtime.models.text.template import ChatTemplate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TOKENIZER = "tokenizer.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_TEMPLATE = "chat_template.jinja"
_SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def codec_from_huggingface(folder: Path) -> TextCodec:
    """The codec of a folder.

    Raises:
        ModelFileError: There is no `tokenizer.json`, or a file is damaged.
        ChatTemplateError: The template does not compile.
        MissingPackage: tokenizers is not installed.
    """
    tokenizer = _tokenizer(folder / _TOKENIZER)
    config = _optional_json(folder / _TOKENIZER_CONFIG)
    special = special_tokens(config)
    templates = _templates(folder, config)
    compiled = {name: ChatTemplate(source, special) for name, source in templates.items()}
    return TextCodec(
        tokenizer,
        eos_ids=_eos_ids(folder, tokenizer, special),
        template=compiled.get("default"),
        tool_template=compiled.get("tool_use"),
    )


def special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Name -> text of the special tokens that a `tokenizer_config.json` names."""
    values = {name: config.get(name) for name in _SPECIAL}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value for name, value in values.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _tokenizer(path: Path) -> "Tokenizer":
    library = tokenizers_library()
    if not path.is_file():
        raise ModelFileError(path, "there is no such file; other tokenizer formats are not read")
    try:
        tokenizer: Tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelFileError(path, f"is no tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _templates(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Name -> source; a file of its own comes before the tokenizer's configuration."""
    path = folder / _TEMPLATE
    if path.is_file():
        return {"default": path.read_text(encoding="utf-8")}
    match config.get("chat_template"):
        case None:
            return {}
        case str(source):
            return {"default": source}
        case list(named) if all(
            isinstance(each, dict) and {"name", "template"} <= each.keys() for each in named
        ):
            return {str(each["name"]): str(each["template"]) for each in named}
        case other:
            raise ModelFileError(
                folder / _TOKENIZER_CONFIG, f"chat_template must be a text or named texts, not {other!r:.80}"
            )


def _is_named_template(value: object) -> bool:
    return isinstance(value, dict) and {"name", "template"} <= value.keys()


def _eos_ids(folder: Path, tokenizer: "Tokenizer", special: Mapping[str, str]) -> frozenset[int]:
    found: set[int] = set()
    for path in (folder / "config.json", folder / "generation_config.json"):
        found.update(Fields(path, _optional_json(path)).token_ids("eos_token_id"))
    by_name = tokenizer.token_to_id(special["eos_token"]) if "eos_token" in special else None
    return frozenset(found if by_name is None else found | {by_name})
