"""Which of the requests that match equally far comes first."""

from typing import Final, Protocol

from scheduler.waiting.node import NOBODY, Rank, WaitNode


class Choice(Protocol):
    """Says which request of a node is taken first, and by what its parent compares the node.

    Attributes:
        weighs: Whether `rank`, or the order of the points, looks at weights.
    """

    weighs: bool

    def best(self, node: WaitNode, cold: WaitNode | None) -> int:
        """Number of the request to take first, at `node` or below its first cold child; or `NOBODY`."""
        ...

    def rank(self, node: WaitNode) -> Rank:
        """Rank of a cold node among its siblings, once its `best` is known. The smallest comes first."""
        ...


class Oldest:
    """By number of submission."""

    weighs = False

    def best(self, node: WaitNode, cold: WaitNode | None) -> int:
        """See `Choice`."""
        own = next(iter(node.requests), NOBODY)
        if cold is None:
            return own
        return cold.best if own == NOBODY else min(own, cold.best)

    def rank(self, node: WaitNode) -> Rank:
        """See `Choice`."""
        return (node.best,)


class Heaviest:
    """Requests that end here first, then the subtree in which most requests wait."""

    weighs = True

    def best(self, node: WaitNode, cold: WaitNode | None) -> int:
        """See `Choice`."""
        own = next(iter(node.requests), NOBODY)
        return cold.best if own == NOBODY and cold is not None else own

    def rank(self, node: WaitNode) -> Rank:
        """See `Choice`."""
        return (-node.weight, node.best)


OLDEST: Final = Oldest()
HEAVIEST: Final = Heaviest()
