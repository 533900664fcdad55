"""The concurrent page-LRU oracle: predicts hits, counts and victims of the `lru` policy exactly."""

from tests.oracles.model import Prefix
from tests.oracles.page_cache import PageCacheOracle


class PageLruOracle(PageCacheOracle):
    """Evicts the unlocked page without cached children that was touched longest ago."""

    def _next_victim(self) -> Prefix:
        # Two evictable leaves never share a stamp: pages touched together lie on one path.
        return min(self.evictable_leaves(), key=lambda prefix: self.cached[prefix].stamp)
