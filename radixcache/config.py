"""Settings of a cache."""

from dataclasses import dataclass

from radixcache.errors import InvalidConfig, UnknownName
from radixcache.eviction import EVICTION_POLICIES, EvictionPolicy, PolicyFactory
from radixcache.tokens import MAX_TOKEN

_SLOT_END = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """Settings of a `PrefixCache`.

    Attributes:
        num_pages: Pages in the pool, >= 1.
        page_size: Tokens a page holds, >= 1.
        first_page: Id of the first page, >= 0; an engine that pads batches keeps the ids below for that.
        eviction: A name in `EVICTION_POLICIES`, or a function that makes a policy for a number of pages.
        partial_reuse: Offer to copy the start of a cached page where the next tokens agree with it.
        max_ghosts: Eviction boundaries remembered for miss reasons; `None`: one for 64 pages, at least 1024.
        max_events: Events kept for consumers that fell behind; 0: no event stream.

    Raises:
        InvalidConfig: A value lies outside its range; names it and the limit.
    """

    num_pages: int
    page_size: int = 16
    first_page: int = 0
    eviction: str | PolicyFactory = "lru"
    partial_reuse: bool = False
    max_ghosts: int | None = None
    max_events: int = 0

    def __post_init__(self) -> None:
        self._require("num_pages", self.num_pages, 1)
        self._require("page_size", self.page_size, 1)
        self._require("first_page", self.first_page, 0)
        self._require("max_events", self.max_events, 0)
        if self.max_ghosts is not None:
            self._require("max_ghosts", self.max_ghosts, 0)
        if self.first_page + self.num_pages - 1 > MAX_TOKEN:
            raise InvalidConfig(
                f"page ids go up to {MAX_TOKEN}, but {self.num_pages} pages from {self.first_page} on end at "
                f"{self.first_page + self.num_pages - 1}"
            )
        if (self.first_page + self.num_pages) * self.page_size > _SLOT_END:
            raise InvalidConfig(
                f"slots go up to 2**63 - 1, but {self.num_pages} pages of {self.page_size} tokens from page "
                f"{self.first_page} on need more"
            )
        if not isinstance(self.eviction, str):
            if not callable(self.eviction):
                raise InvalidConfig(f"eviction is a name or a function, got {self.eviction!r}")
        elif self.eviction not in EVICTION_POLICIES:
            raise UnknownName("eviction policy", self.eviction, EVICTION_POLICIES)

    @staticmethod
    def _require(name: str, value: object, lowest: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise InvalidConfig(f"{name} is an integer >= {lowest}, got {value!r}")

    def make_policy(self) -> EvictionPolicy:
        """A fresh eviction policy for a pool of this size."""
        factory = EVICTION_POLICIES[self.eviction] if isinstance(self.eviction, str) else self.eviction
        return factory(self.num_pages)

    def ghost_records(self) -> int:
        """Eviction boundaries remembered."""
        return max(1024, self.num_pages // 64) if self.max_ghosts is None else self.max_ghosts
