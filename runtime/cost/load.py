"""What one engine step has to do, in counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from radixcache.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLoad:
    """What a step has to do, summed over the rows of its batch.

    A row has `context` tokens whose KV is there already, and computes `extend` more.

    Attributes:
        num_tokens: Tokens computed: sum of `extend`.
        num_rows: Rows that need logits (a prefill chunk that is not the last one needs none).
        attention_pairs: Query-key pairs under the causal mask: sum of
            `extend * context + extend * (extend + 1) // 2`.
        kv_read_tokens: Tokens whose KV attention reads: sum of `context + extend`.
        decode_pairs: Those of `attention_pairs` in rows that compute a single token.

    Raises:
        InvalidArgument: A count is negative, or there are more `decode_pairs` than pairs.
    """

    num_tokens: int
    num_rows: int
    attention_pairs: int
    kv_read_tokens: int
    decode_pairs: int = 0

    def __post_init__(self) -> None:
        counts = (self.num_tokens, self.num_rows, self.attention_pairs, self.kv_read_tokens)
        if min(*counts, self.decode_pairs) < 0:
            raise InvalidArgument(f"a step load has no negative counts: {self}")
        if self.decode_pairs > self.attention_pairs:
            raise InvalidArgument(f"a step load has no more decode pairs than pairs: {self}")

    @property
    def prefill_pairs(self) -> int:
        """Those of `attention_pairs` in rows that compute several tokens."""
        return self.attention_pairs - self.decode_pairs

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, bool]]) -> Self:
        """Load of a batch, a row being `(context, extend, needs_logits)`. O(rows).

        Example:
            >>> StepLoad.of([(100, 1, True), (0, 4, False)])
            StepLoad(num_tokens=5, num_rows=1, attention_pairs=111, kv_read_tokens=105, decode_pairs=101)
        """
        num_tokens = num_rows = attention_pairs = kv_read_tokens = decode_pairs = 0
        for context, extend, needs_logits in rows:
            if context < 0 or extend < 0:
                raise InvalidArgument(f"context {context} and extend {extend} must be >= 0")
            num_tokens += extend
            num_rows += needs_logits
            pairs = extend * context + extend * (extend + 1) // 2
            attention_pairs += pairs
            decode_pairs += pairs if extend == 1 else 0
            kv_read_tokens += context + extend
        return cls(
            num_tokens=num_tokens,
            num_rows=num_rows,
            attention_pairs=attention_pairs,
            kv_read_tokens=kv_read_tokens,
            decode_pairs=decode_pairs,
        )

    @classmethod
    def of_decodes(cls, num_rows: int, context: int) -> Self:
        """Load of rows that compute one token each, with `context` tokens of KV in all. O(1)."""
        return cls(
            num_tokens=num_rows,
            num_rows=num_rows,
            attention_pairs=context + num_rows,
            kv_read_tokens=context + num_rows,
            decode_pairs=context + num_rows,
        )

    def __add__(self, other: Self) -> Self:
        """Load of both batches as one."""
        return type(self)(
            num_tokens=self.num_tokens + other.num_tokens,
            num_rows=self.num_rows + other.num_rows,
            attention_pairs=self.attention_pairs + other.attention_pairs,
            kv_read_tokens=self.kv_read_tokens + other.kv_read_tokens,
            decode_pairs=self.decode_pairs + other.decode_pairs,
        )
