"""How byte-level tokenizers split a text before merging. GGUF files only name the way; here is what it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from runtime.models.text.library import tokenizers_library

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORDS: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The split of Llama 3 and Qwen, which differ in how many digits stay together."""


@dataclass(frozen=True, slots=True)
class Splitting:
    """One way to split.

    Attributes:
        pre_tokenizer: Makes the library's object, from the library.
        nfc: Compose characters first.
        whole_words: A piece that is a token as a whole is not built from merges.
    """

    pre_tokenizer: Callable[[Any], Any]
    nfc: bool = False
    whole_words: bool = False

    def apply(self, tokenizer: "Tokenizer") -> None:
        """Make a tokenizer split this way."""
        library = tokenizers_library()
        if self.nfc:
            tokenizer.normalizer = library.normalizers.NFC()
        tokenizer.pre_tokenizer = self.pre_tokenizer(library.pre_tokenizers)


def _gpt2(library: Any) -> Any:
    return library.ByteLevel(add_prefix_space=False, use_regex=True)


def _single_digits(library: Any) -> Any:
    return library.Sequence([library.Digits(individual_digits=True), _gpt2(library)])


def _words(digits: str) -> Callable[[Any], Any]:
    pattern = _WORDS.replace("DIGITS", digits)

    def make(library: Any) -> Any:
        split = library.Split(tokenizers_library().Regex(pattern), "isolated")
        return library.Sequence([split, library.ByteLevel(add_prefix_space=False, use_regex=False)])

    return make


SPLITTINGS: Final[Mapping[str, Splitting]] = {
    "gpt-2": Splitting(_gpt2),
    "smollm": Splitting(_single_digits),
    "llama-bpe": Splitting(_words(r"\p{N}{1,3}"), whole_words=True),
    "qwen2": Splitting(_words(r"\p{N}"), nfc=True),
}
"""The name in `tokenizer.ggml.pre` -> what it stands for."""
