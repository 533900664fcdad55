"""The concurrent page-FIFO oracle: predicts hits, counts and victims of the `fifo` policy exactly."""

from collections.abc import Sequence

from tests.oracles.model import Namespace
from tests.oracles.page_lru import PageLruOracle


class PageFifoOracle(PageLruOracle):
    """Evicts the unlocked page without cached children whose path was extended longest ago."""

    def _hit(self, namespace: Namespace, tokens: Sequence[int]) -> None:
        pass
