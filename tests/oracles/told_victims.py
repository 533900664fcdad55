"""The oracle for policies whose victims it cannot predict: it is told them, and judges them.

Run the verb on the product first, collect the pages that its removed events name, `tell` them, run
the same verb here and `settle`. All but the choice among evictable leaves is then checked: matches,
counts, how many pages went, that none was locked or had cached children, what is cached afterwards.
"""

from collections.abc import Iterable

from tests.oracles.model import Prefix, VictimsDisagree
from tests.oracles.page_cache import PageCacheOracle


class ToldVictimsOracle(PageCacheOracle):
    """Evicts what it was told, in any order in which each page is an evictable leaf in its turn."""

    def __init__(self, num_pages: int, page_size: int, *, partial_reuse: bool = False) -> None:
        super().__init__(num_pages, page_size, partial_reuse=partial_reuse)
        self._told: set[Prefix] = set()

    def tell(self, victims: Iterable[Prefix]) -> None:
        """Name the pages that the product evicted in the verb that comes next here.

        Raises:
            VictimsDisagree: one of them is not cached, or was named already.
        """
        for prefix in victims:
            if prefix in self._told or prefix not in self.cached:
                raise VictimsDisagree(f"{prefix} was evicted, but was not cached")
            self._told.add(prefix)

    def settle(self) -> None:
        """Assert that every page told has gone.

        Raises:
            VictimsDisagree: the product evicted more pages than the verb needed.
        """
        if self._told:
            raise VictimsDisagree(f"evicted without need: {sorted(self._told, key=repr)}")

    def _next_victim(self) -> Prefix:
        leaves = self._told.intersection(self.evictable_leaves())
        if not leaves:
            raise VictimsDisagree(
                f"no evictable leaf among the victims still to go: {sorted(self._told, key=repr)}"
            )
        victim = min(leaves, key=repr)
        self._told.remove(victim)
        return victim
