"""An exact engine: its KV are integers, and every next token depends on all KV that it reads.

The KV of a token depends on its id, its position, its namespace and the KV of all tokens before it, as in
a model of many layers. It is written to and read from a memory addressed by slots, so that a page that was
freed too early, published too early, copied too late or swapped wrongly changes what is generated.
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from radixcache import Namespace
from scheduler import Row, StepPlan

VOCABULARY = 6
_MODULUS = 2**31 - 1


def _salt(namespace: Namespace) -> int:
    return zlib.crc32(repr(namespace).encode())


def _kv(token: int, position: int, context: int, salt: int) -> int:
    return (token * 7919 + position * 104_729 + context * 31 + salt + 1) % _MODULUS


def _after(context: int, position: int, kv: int) -> int:
    return (context + (2 * position + 1) * kv) % _MODULUS


def _token(context: int) -> int:
    return context % VOCABULARY


def cold_kv(tokens: Sequence[int], namespace: Namespace = None) -> list[int]:
    """The KV of all tokens, computed without any cache."""
    salt, context, made = _salt(namespace), 0, []
    for position, token in enumerate(tokens):
        made.append(_kv(token, position, context, salt))
        context = _after(context, position, made[-1])
    return made


def generate(prompt: Sequence[int], num_tokens: int, namespace: Namespace = None) -> list[int]:
    """What an engine without any cache generates."""
    salt, context, known = _salt(namespace), 0, list(prompt)
    for position in range(len(prompt) + num_tokens - 1):
        context = _after(context, position, _kv(known[position], position, context, salt))
        if position >= len(prompt) - 1:
            known.append(_token(context))
    return known[len(prompt) :]


class ToyEngine:
    """Runs plans on a memory of so many slots.

    Args:
        num_slots: Size of the memory.
        page_size: Slots a page.
        how_many: Given the most tokens that a row may generate, how many it does.
    """

    def __init__(
        self, num_slots: int, page_size: int, how_many: Callable[[int], int] = lambda most: most
    ) -> None:
        self._memory = np.full(num_slots, -1, dtype=np.int64)
        self._page_size = page_size
        self._how_many = how_many

    def page(self, page: int) -> list[int]:
        """What a page holds."""
        return self._memory[page * self._page_size : (page + 1) * self._page_size].tolist()

    def execute(self, plan: StepPlan) -> dict[str, list[int]]:
        """Outputs of a plan. All rows read before any of them writes, as on a device."""
        for source, target, num_tokens in plan.copies:
            start, end = source * self._page_size, target * self._page_size
            self._memory[end : end + num_tokens] = self._memory[start : start + num_tokens]
        contexts = [self._read(row) for row in plan.rows]
        made = [self._compute(row, context) for row, context in zip(plan.rows, contexts, strict=True)]
        return {row.request.request_id: out for row, out in zip(plan.rows, made, strict=True) if out}

    def garble(self, plan: StepPlan) -> None:
        """Leave behind what a step that broke off may leave: anything in the places it writes to."""
        for row in plan.rows:
            sequence = row.request.sequence
            if sequence is not None:
                reach = min(sequence.reserved_len, row.start + max(1, row.extend_len + row.max_tokens))
                self._memory[sequence.slots(row.start, max(row.start, reach))] = -7
        for copy in plan.copies:
            first = copy.target * self._page_size
            self._memory[first : first + copy.num_tokens] = -7

    def _read(self, row: Row) -> int:
        context = 0
        sequence = row.request.sequence
        assert sequence is not None
        for position, kv in enumerate(self._memory[sequence.slots(0, row.start)].tolist()):
            context = _after(context, position, kv)
        return context

    def _compute(self, row: Row, context: int) -> list[int]:
        request, position = row.request, row.start
        sequence = request.sequence
        assert sequence is not None
        salt, known = _salt(request.namespace), [*request.prompt, *request.output]
        num_given, num_made = len(known), self._how_many(row.max_tokens) if row.max_tokens else 0
        for _ in range(row.extend_len + max(0, num_made - 1)):
            (slot,) = sequence.slots(position, position + 1)
            kv = self._memory[slot] = _kv(known[position], position, context, salt)
            context = _after(context, position, int(kv))
            position += 1
            if position >= num_given and len(known) < num_given + num_made:
                known.append(_token(context))
        return known[num_given:]
