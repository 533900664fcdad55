"""Records and errors of the page oracles; no behaviour beyond arithmetic on their own fields."""

from dataclasses import dataclass, field

Namespace = str | bytes | tuple[str | bytes, ...] | None
# One cached page is known by all tokens of its namespace up to the end of that page.
Prefix = tuple[Namespace, tuple[int, ...]]

RETIRED = "retired, with a name that no test gives"


def is_retired(namespace: Namespace) -> bool:
    """Return whether the oracle renamed this namespace when it was retired."""
    return isinstance(namespace, tuple) and namespace[:1] == (RETIRED,)


class OutOfPagesOracle(Exception):
    """The product must raise `OutOfPages` here, with these numbers, and change nothing."""

    def __init__(self, *, needed: int, free: int, evictable: int, locked: int) -> None:
        super().__init__(f"needed {needed}, free {free}, evictable {evictable}, locked {locked}")
        self.needed = needed
        self.free = free
        self.evictable = evictable
        self.locked = locked


class MisuseOracle(Exception):
    """The verb is not legal in this state: the product must refuse it and change nothing."""


class VictimsDisagree(AssertionError):
    """The product evicted pages that no policy may evict here, or a wrong number of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Pages by state; the four sum up to the total."""

    free: int
    private: int
    evictable: int
    locked: int
    total: int


@dataclass(slots=True, kw_only=True)
class Statistics:
    """What was counted so far; lookups and tokens at the first successful `reserve`."""

    lookups: int = 0
    prompt_tokens: int = 0
    matched_tokens: int = 0
    resumed_lookups: int = 0
    resumed_prompt_tokens: int = 0
    resumed_matched_tokens: int = 0
    copied_tokens: int = 0
    duplicate_pages: int = 0
    evicted_pages: int = 0


@dataclass(slots=True, kw_only=True)
class CachedPage:
    """A page in the dictionary: its identity and the stamp of the last touch."""

    serial: int
    stamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """`num_tokens` tokens to copy from the start of page `source` to the start of `target`."""

    source: int
    target: int
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Tokens at the start of a cached page that a fresh page could take over."""

    source: Prefix
    num_tokens: int


@dataclass(slots=True, kw_only=True)
class OracleSequence:
    """State of one live sequence.

    Pages are serial numbers, each given out once and never again, so a test can hold them against
    the product's page ids: at any moment live serials and live page ids must map one to one.
    """

    namespace: Namespace
    tokens: list[int]
    prompt_len: int
    read: bool
    write: bool
    resumed: bool
    matched_len: int
    computed_len: int
    published_len: int
    pages: list[int]
    is_counted: bool = False
    offer: Offer | None = None
    sources: set[int] = field(default_factory=set)
    copies: list[Copy] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        """Tokens known so far."""
        return len(self.tokens)
