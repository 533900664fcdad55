"""First in, first out."""

from radixcache.eviction.base import EvictionPolicy, Use
from radixcache.node import Node


class FIFO(EvictionPolicy):
    """Evicts the leaf whose path was extended longest ago; hits change nothing."""

    def touch(self, node: Node, use: Use) -> None:
        """A hit is no insertion."""
