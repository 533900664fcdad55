"""A KV memory that remembers what was written: each slot holds the number of one whole prefix.

Copies run as late as an engine may run them (before its next step) or as early as it can get them, in the
order in which they were handed out.
"""

import numpy as np

from radixcache import PageCopy, Sequence


class ShadowKV:
    def __init__(self, num_slots: int, page_size: int, *, is_lazy: bool) -> None:
        self._page_size = page_size
        self._is_lazy = is_lazy
        self._memory = np.zeros(num_slots, dtype=np.int64)
        self._prefixes: dict[tuple[object, int], int] = {}
        self._pending: list[PageCopy] = []

    def extended(self, chain: list[int], identity: object, token_ids: tuple[int, ...]) -> list[int]:
        """The numbers of all prefixes of a sequence: one a token, equal only for equal prefixes."""
        chain = list(chain)
        for token in token_ids:
            before = chain[-1] if chain else identity
            chain.append(self._prefixes.setdefault((before, token), len(self._prefixes) + 1))
        return chain

    def order(self, copies: list[PageCopy]) -> None:
        self._pending += copies
        if not self._is_lazy:
            self._run_copies()

    def write(self, seq: Sequence, chain: list[int], start: int, stop: int) -> None:
        self._run_copies()
        self._memory[seq.slots(start, stop)] = chain[start:stop]

    def assert_reads_back(self, seq: Sequence, chain: list[int], untaken: set[int]) -> None:
        """Every computed position holds its own prefix, but for copies the engine has not run yet."""
        ordered = untaken | {copy.target for copy in self._pending}
        slots = seq.slots(0, seq.computed_len)
        expected = np.array(chain[: seq.computed_len], dtype=np.int64)
        is_due = ~np.isin(slots // self._page_size, list(ordered))
        found = self._memory[slots]
        wrong = np.flatnonzero(is_due & (found != expected))
        assert not len(wrong), f"{seq!r} reads foreign or stale KV at positions {wrong.tolist()}"

    def _run_copies(self) -> None:
        size = self._page_size
        for source, target, num_tokens in self._pending:
            content = self._memory[source * size : source * size + num_tokens]
            self._memory[target * size : target * size + num_tokens] = content
        self._pending.clear()
