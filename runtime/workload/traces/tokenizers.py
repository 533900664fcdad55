"""Text to token ids."""

from pathlib import Path
from typing import Protocol

from runtime.errors import TraceError


class Tokenizer(Protocol):
    """What a loader of texts needs."""

    @property
    def name(self) -> str:
        """Name, for reports."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` without special tokens; no ids for an empty text."""
        ...


class ByteTokenizer:
    """One token a byte of UTF-8. Needs no file; prompts come out some four times too long."""

    @property
    def name(self) -> str:
        """See `Tokenizer`."""
        return "bytes"

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`. Lone surrogates are encoded as they are.

        Example:
            >>> ByteTokenizer().encode("hi")
            [104, 105]
        """
        return list(text.encode("utf-8", errors="surrogatepass"))


class HuggingFaceTokenizer:
    """A `tokenizer.json` as Hugging Face publishes them. Needs the `tokenizers` library.

    Args:
        path: The file.

    Raises:
        TraceError: The file is missing or is no tokenizer.
    """

    def __init__(self, path: Path | str) -> None:
        from tokenizers import Tokenizer as HuggingFace

        self._path = Path(path)
        if not self._path.is_file():
            raise TraceError(path, None, "no such tokenizer file")
        try:
            self._tokenizer = HuggingFace.from_file(str(self._path))
        except Exception as error:
            raise TraceError(path, None, f"is no tokenizer.json: {error}") from error

    @property
    def name(self) -> str:
        """See `Tokenizer`."""
        return self._path.name

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids
