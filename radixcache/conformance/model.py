"""A model whose every output depends on every KV entry it should have read, and on no other."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixcache.cache import PrefixCache
from radixcache.copies import PageCopy
from radixcache.errors import RadixCacheError

_MODULUS = (1 << 31) - 1
_UNWRITTEN = -1
_VOCABULARY = 1 << 20


class ConformanceFailure(RadixCacheError, AssertionError):
    """An engine broke the embedder's contract."""


class ToyModel:
    """Stands in for an engine's model and KV memory.

    The KV of a token is a number made of the token, its position and all KV before it; the next token is made
    of all KV so far. Written through slots, read through slots: what `Sequence.slots` said.

    Args:
        cache: Whose pages the memory has.
    """

    def __init__(self, cache: PrefixCache) -> None:
        config = cache.config
        self._cache = cache
        self._page_size = config.page_size
        self._kv = np.full(
            (config.first_page + config.num_pages) * config.page_size, _UNWRITTEN, dtype=np.int64
        )

    def forward(self, slots: npt.NDArray[np.int64], start: int, token_ids: Sequence[int]) -> int:
        """Compute tokens that follow `start` computed ones.

        Args:
            slots: Slot of every position up to the last token computed here, int64 of shape [start + n].
            start: Positions whose KV is in memory already.
            token_ids: The n tokens at positions [start, start + n), at least one.

        Returns:
            The next token.

        Raises:
            ConformanceFailure: Slots are missing, a page that is not private is written, or a position that
                should have KV has none.
        """
        if len(slots) != start + len(token_ids) or not len(token_ids):
            raise ConformanceFailure(f"{len(slots)} slots for {start} + {len(token_ids)} tokens")
        self._require_private(slots[start:])
        context = self._kv[slots[:start]]
        if (context == _UNWRITTEN).any():
            position = int(np.flatnonzero(context == _UNWRITTEN)[0])
            raise ConformanceFailure(
                f"position {position} is read from slot {slots[position]}, never written"
            )
        digest = _digest(context)
        for position, token in enumerate(token_ids, start):
            entry = _mix(token + 1, position + 1, digest)
            self._kv[slots[position]] = entry
            digest = (digest + entry * _weight(position)) % _MODULUS
        return digest % _VOCABULARY

    def copy(self, order: PageCopy) -> None:
        """Run one of the copies that `Sequence.take_copies` orders."""
        source, target = order.source * self._page_size, order.target * self._page_size
        self._require_private(np.array([target], dtype=np.int64))
        self._kv[target : target + order.num_tokens] = self._kv[source : source + order.num_tokens]

    def _require_private(self, slots: npt.NDArray[np.int64]) -> None:
        state = self._cache._state
        private = {page for seq in state.live.values() for page in seq.private_pages()}
        for page in np.unique(slots // self._page_size).tolist():
            if page not in private:
                raise ConformanceFailure(f"page {page} is written, but belongs to no live sequence alone")

    @staticmethod
    def expected_output(prompt: Sequence[int], num_tokens: int) -> list[int]:
        """What any engine must generate for a prompt. O(len(prompt) + num_tokens)."""
        digest, output, known = 0, list[int](), list(prompt)
        position = 0
        while len(output) < num_tokens:
            while position < len(known):
                entry = _mix(known[position] + 1, position + 1, digest)
                digest = (digest + entry * _weight(position)) % _MODULUS
                position += 1
            output.append(digest % _VOCABULARY)
            known.append(output[-1])
        return output


def _weight(position: int) -> int:
    return (2 * position + 1) * 40503 % _MODULUS


def _mix(token: int, position: int, digest: int) -> int:
    return (token * 48271 + position * 69621 + digest * 16807) % _MODULUS


def _digest(entries: npt.NDArray[np.int64]) -> int:
    weights = (2 * np.arange(len(entries), dtype=np.int64) + 1) * 40503 % _MODULUS
    return int((entries * weights % _MODULUS).sum() % _MODULUS)
