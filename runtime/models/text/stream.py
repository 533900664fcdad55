"""Text from tokens that come one by one, without ever showing half a character."""

import codecs
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.decoders import DecodeStream


class TextStream(Protocol):
    """Text of one answer, as it grows.

    What all calls returned, put together, is what decoding all tokens at once gives.
    """

    def push(self, token_id: int) -> str:
        """The text that is certain now and was not before; may be empty."""
        ...

    def finish(self) -> str:
        """What was held back: bytes of a character that never was completed, as replacement characters."""
        ...


class ByteLevelStream:
    """For tokenizers whose tokens are strings of bytes: holds back at most three bytes. O(1) a token."""

    def __init__(self, tokenizer: "Tokenizer", hidden: Collection[int]) -> None:
        self._tokenizer = tokenizer
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """See `TextStream`."""
        token = None if token_id in self._hidden else self._tokenizer.id_to_token(token_id)
        return "" if token is None else self._decoder.decode(token_bytes(token))

    def finish(self) -> str:
        """See `TextStream`."""
        return self._decoder.decode(b"", final=True)


class WindowStream:
    """For any other tokenizer: the library decodes a window of the last tokens again. O(1) a token."""

    def __init__(self, tokenizer: "Tokenizer", stream: "DecodeStream") -> None:
        self._tokenizer = tokenizer
        self._stream = stream
        self._held: list[int] = []

    def push(self, token_id: int) -> str:
        """See `TextStream`."""
        text = self._stream.step(self._tokenizer, token_id)
        if text is None:
            self._held.append(token_id)
            return ""
        self._held.clear()
        return text

    def finish(self) -> str:
        """See `TextStream`."""
        held, self._held = self._held, []
        return self._tokenizer.decode(held) if held else ""


def _byte_of_character() -> dict[str, int]:
    """The alphabet of byte-level BPE (Radford et al., 2019).

    Printable bytes stand for themselves, the others for the characters from U+0100 on, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    shifted = {chr(0x100 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_BYTES = _byte_of_character()


def token_bytes(token: str) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for.

    Example:
        >>> token_bytes("Ġcaf"), token_bytes("Ã©").decode()
        (b' caf', 'é')
    """
    if all(character in _BYTES for character in token):
        return bytes(_BYTES[character] for character in token)
    # An added token is stored as the text it is, which may hold a plain space.
    return token.encode()
