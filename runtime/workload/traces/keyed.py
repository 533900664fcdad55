"""Keyed hashes of blocks and names: whoever lacks the key can neither undo nor test them."""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Final

from radixcache.errors import InvalidArgument

MIN_KEY_BYTES: Final = 8
BLOCK_HASH_BYTES: Final = 12
_LABEL_BYTES: Final = 9
_KEY_PERSON: Final = b"key"
_BLOCK_PERSON: Final = b"block"


class KeyedHash:
    """Hashes of one key. Equal things have equal hashes, in every process and file with that key.

    A block's hash is chained: it stands for the block and everything before it, so that equal blocks behind
    different prefixes look unrelated. It has 96 bits: that any two of 2**32 blocks are confused has a
    probability of 2**-33.

    Args:
        key: The secret; never shown. Any length from `MIN_KEY_BYTES` up.

    Raises:
        InvalidArgument: The key is shorter than that.
    """

    __slots__ = ("_blocks", "_key")

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise InvalidArgument(f"a key has at least {MIN_KEY_BYTES} bytes, got {len(key)}")
        self._key = hashlib.blake2b(key, person=_KEY_PERSON).digest()
        self._blocks = hashlib.blake2b(key=self._key, digest_size=BLOCK_HASH_BYTES, person=_BLOCK_PERSON)

    def chain(self, blocks: Iterable[bytes], parent: bytes) -> list[bytes]:
        """Hashes of blocks that follow one another, the first behind `parent`. O(bytes).

        Args:
            blocks: Their content.
            parent: Hash of the block before, or `root`.
        """
        hashes = []
        for block in blocks:
            state = self._blocks.copy()
            state.update(parent)
            state.update(block)
            parent = state.digest()
            hashes.append(parent)
        return hashes

    def root(self, start: bytes = b"") -> bytes:
        """What a first block stands behind, for each kind of start."""
        return self._digest(b"root", start, BLOCK_HASH_BYTES)

    def label(self, what: str, name: str) -> str:
        """A name that stands for `name`; the same name of something else has another one."""
        digest = self._digest(what.encode(), name.encode(errors="surrogatepass"), _LABEL_BYTES)
        return f"{what}-{text_of(digest)}"

    def _digest(self, person: bytes, data: bytes, size: int) -> bytes:
        return hashlib.blake2b(data, key=self._key, digest_size=size, person=person).digest()


def text_of(digest: bytes) -> str:
    """A hash as it stands in files.

    Example:
        >>> text_of(bytes(12))
        'AAAAAAAAAAAAAAAA'
    """
    return urlsafe_b64encode(digest).decode()
