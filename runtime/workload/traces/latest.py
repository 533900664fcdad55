"""What was made of a session's latest prompt, as the next one mostly goes on from it."""

from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

_MAX_REMEMBERED: Final = 1024
"""Sessions that are remembered."""


class _Sliceable(Protocol):
    def __getitem__(self, key: slice, /) -> Any: ...


_Made = TypeVar("_Made", bound=_Sliceable)


class LatestPrompts(Generic[_Made]):
    """Remembers the blocks of the latest prompt of each session, and one value made of each block."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[Sequence[Hashable], _Made]] = {}

    def known(self, session: str | None, blocks: Sequence[Hashable]) -> _Made | None:
        """Values of the blocks that the prompt and the latest one begin with; `None`: nothing is remembered.

        Complexity:
            O(blocks) comparisons.
        """
        if session is None or session not in self._latest:
            return None
        before, made = self._latest[session]
        start: _Made = made[: _common(before, blocks)]
        return start

    def remember(self, session: str | None, blocks: Sequence[Hashable], made: _Made) -> None:
        """Remember what was made of a prompt, and forget the session that was asked for longest ago."""
        if session is None:
            return
        self._latest.pop(session, None)
        self._latest[session] = blocks, made
        if len(self._latest) > _MAX_REMEMBERED:
            del self._latest[next(iter(self._latest))]


def _common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """How many items both begin with, by comparing slices."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
