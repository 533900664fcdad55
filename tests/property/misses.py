"""What a miss should be called, worked out page by page from the oracle's dictionary.

Holds for caches whose records of evicted pages are not full, and for at most five namespaces.
"""

from collections.abc import Iterable

from radixcache import MissReason
from tests.oracles.model import Namespace, OracleSequence, Prefix
from tests.oracles.page_cache import PageCacheOracle


class MissModel:
    """Remembers when pages were evicted from behind a prefix that stayed."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._evicted: dict[Prefix, float] = {}

    def evicted(self, victims: Iterable[Prefix], now: float) -> None:
        for victim in victims:
            self.dropped([victim])
            self._evicted[victim] = now

    def dropped(self, pages: Iterable[Prefix]) -> None:
        gone = set(pages)
        self._evicted = {page: t for page, t in self._evicted.items() if self._parent(page) not in gone}

    def stored(self, pages: Iterable[Prefix]) -> None:
        for page in pages:
            self._evicted.pop(page, None)

    def retired(self, namespace: Namespace) -> None:
        self._evicted = {
            page: t
            for page, t in self._evicted.items()
            if page[0] != namespace or len(page[1]) > self._page_size
        }

    def clear(self) -> None:
        self._evicted.clear()

    def of(
        self, oracle: PageCacheOracle, seq: OracleSequence, namespace: Namespace
    ) -> tuple[dict[MissReason, int], float | None]:
        """Unmatched tokens of a sequence just opened, by reason, and the time its next page was evicted."""
        size = self._page_size
        tail = (seq.prompt_len - 1) % size + 1
        tokens = {MissReason.LAST_TOKEN if tail == size else MissReason.SHORTER_THAN_PAGE: tail}
        middle = seq.prompt_len - tail - seq.matched_len
        if not middle:
            return tokens, None
        end = seq.matched_len + size
        next_page = (namespace, tuple(seq.tokens[:end]))
        reason = self._reason(oracle, seq, next_page)
        tokens[reason] = middle
        return tokens, self._evicted[next_page] if reason is MissReason.EVICTED else None

    def _reason(self, oracle: PageCacheOracle, seq: OracleSequence, next_page: Prefix) -> MissReason:
        others = [other for other in oracle.live.values() if other is not seq and other.write]
        if any(self._computes(other) == next_page for other in others):
            return MissReason.IN_FLIGHT
        if next_page in self._evicted:
            return MissReason.EVICTED
        if any(tokens == next_page[1] for _, tokens in oracle.visible()):
            return MissReason.OTHER_NAMESPACE
        return MissReason.NEVER_SEEN

    def _computes(self, seq: OracleSequence) -> Prefix | None:
        end = seq.published_len + self._page_size
        return (seq.namespace, tuple(seq.tokens[:end])) if end <= seq.prompt_len else None

    def _parent(self, page: Prefix) -> Prefix:
        return (page[0], page[1][: -self._page_size])
