"""A workload through the verbs of the real cache, one turn after the other."""

import numpy as np
import numpy.typing as npt

from radixcache import CacheConfig, PrefixCache
from runtime.lab.order import nominal_order
from runtime.workload import FRESH_TOKEN_BASE, Turn, Workload, prompt_of

Ids = npt.NDArray[np.int32]
OWN_TOKEN = np.array([2**31 - 1], dtype=np.int32)


class Replay:
    """`open`, one `reserve` for all that is computed, `advance`, `close`.

    Args:
        num_pages: Pages of the cache.
        page_size: Tokens a page.
        outputs: Whether turns generate.
        refresh: Whether a turn that added no page refreshes the last page of its prompt all the same.
        eviction: Eviction policy.
    """

    def __init__(
        self, num_pages: int, page_size: int, *, outputs: bool, refresh: bool, eviction: str = "lru"
    ) -> None:
        self.cache = PrefixCache(CacheConfig(num_pages=num_pages, page_size=page_size, eviction=eviction))
        self._page_size = page_size
        self._outputs = outputs
        self._refresh = refresh
        self._fresh = FRESH_TOKEN_BASE

    def run(self, workload: Workload) -> list[int]:
        """Pages that each turn finds."""
        generated: dict[str, dict[int, Ids]] = {}
        hits = []
        for session, number in nominal_order(workload):
            turn, own = session.turns[number], generated.setdefault(session.session_id, {})
            own[number] = np.arange(self._fresh, self._fresh + turn.output_len, dtype=np.int32)
            self._fresh += turn.output_len
            hits.append(self._serve(turn, prompt_of(turn, own), own[number]))
        return hits

    def _serve(self, turn: Turn, prompt: Ids, output: Ids) -> int:
        computed = len(prompt) + (turn.output_len - 1 if self._outputs else 0)
        seq = self.cache.open(prompt, namespace=turn.namespace)
        matched_len = seq.matched_len
        seq.reserve(computed - matched_len)
        if computed > len(prompt):
            seq.append(output)
        seq.advance(computed - matched_len)
        ends_unmatched = len(prompt) % self._page_size == 0 and computed < len(prompt) + self._page_size
        if self._refresh and ends_unmatched:
            before = self.cache.stats.published_pages
            seq.close()
            if self.cache.stats.published_pages == before:
                self._touch(prompt, turn)
        else:
            seq.close()
        return matched_len // self._page_size

    def _touch(self, prompt: Ids, turn: Turn) -> None:
        seq = self.cache.open(np.concatenate((prompt, OWN_TOKEN)), namespace=turn.namespace)
        assert seq.matched_len == len(prompt)
        seq.reserve(1)
        seq.abort()
