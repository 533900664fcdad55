"""What an order of the waiting queue is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

import numpy.typing as npt

from radixcache import PrefixCache
from radixcache.errors import InvalidConfig
from radixcache.misses import Anchor
from scheduler.request import Request
from scheduler.waiting import OLDEST, WaitingForest
from scheduler.waiting.anchors import Anchors
from scheduler.waiting.choice import Choice
from scheduler.waiting.columns import Keys, RequestColumns
from scheduler.waiting.node import WaitNode
from scheduler.waiting.order import NodeOrder, PointOrder
from scheduler.waiting.points import Points
from scheduler.waiting.shortlist import Shortlist


class QueuePolicy(Protocol):
    """Holds the waiting requests and says which one is next.

    Requests that wait for a page which a running request computes are held: `head` passes them over.

    An order may say two things more, as attributes of its class: `is_bounded = False`, that a request may
    wait in it without end, whatever `max_overtakes` is; and `counts_by_client = True`, that a request is
    overtaken by those of its own client only.
    """

    def add(self, request: Request) -> None:
        """A request begins to wait; its number is larger than those of all that wait."""
        ...

    def remove(self, request: Request) -> None:
        """A request ended while it waited."""
        ...

    def head(self, now: float) -> Request | None:
        """The request to admit next; `None` when nobody waits, or all are held."""
        ...

    def admitted(self, request: Request, extend_len: int) -> None:
        """A waiting request was admitted for the first time and has `extend_len` tokens to compute."""
        ...

    def generated(self, request: Request, num_tokens: int) -> None:
        """A running request generated tokens."""
        ...

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """A running request computes the page with these tokens behind `anchor`."""
        ...

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """It computes that page no longer."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What some of the orders can be told.

    Attributes:
        k: `k-lpm`: the oldest comes first once in k admissions, >= 1.
        quantum: `fair`: tokens a client may be served for before the others are, >= 1.
        output_weight: `fair`: what an output token counts, in prefill tokens, >= 0.

    Raises:
        InvalidConfig: A value lies outside its range; names it and the limit.
    """

    k: int = 4
    quantum: int = 8192
    output_weight: float = 2.0

    def __post_init__(self) -> None:
        for name in ("k", "quantum"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidConfig(f"{name} is an integer >= 1, got {value!r}")
        if not 0 <= self.output_weight < float("inf"):
            raise InvalidConfig(f"output_weight is a finite number >= 0, got {self.output_weight!r}")


MakePolicy: TypeAlias = Callable[[PrefixCache, PolicyOptions], QueuePolicy]


class ForestPolicy:
    """An order that follows a forest; a subclass says who is first.

    Attributes:
        is_bounded: See `QueuePolicy`.
        counts_by_client: See `QueuePolicy`.

    Complexity:
        `add`, `remove` and `admitted`: see `WaitingForest`. The rest O(1).
    """

    is_bounded: ClassVar[bool] = True
    counts_by_client: ClassVar[bool] = False

    def __init__(self, cache: PrefixCache, anchors: Anchors, order: NodeOrder) -> None:
        self.forest = WaitingForest(cache, anchors, order)

    @property
    def is_as_new(self) -> bool:
        """Whether an empty queue of this order could be replaced by a new one, but for what is held."""
        return True

    def add(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self.forest.add(request)

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self.forest.remove(request)

    def admitted(self, request: Request, extend_len: int) -> None:
        """See `QueuePolicy`."""
        self.remove(request)

    def generated(self, request: Request, num_tokens: int) -> None:
        """See `QueuePolicy`. Nothing to note."""

    def hold(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`."""
        self.forest.hold(anchor, next_page)

    def release(self, anchor: Anchor, next_page: bytes) -> None:
        """See `QueuePolicy`."""
        self.forest.release(anchor, next_page)

    def __len__(self) -> int:
        return len(self.forest)


class PointPolicy(ForestPolicy):
    """An order over the points of a forest; a subclass says which point comes first."""

    def __init__(self, cache: PrefixCache, points: Points, choice: Choice = OLDEST) -> None:
        anchors = Anchors(cache.config)
        super().__init__(cache, anchors, PointOrder(anchors.is_held, points, choice))

    def _request_at(self, point: WaitNode | None) -> Request | None:
        """The best request of a point."""
        return None if point is None else self.forest.numbered(point.best)


class ColumnPolicy(ForestPolicy):
    """An order over all requests, each a row; a subclass says which comes first.

    Args:
        cache: Where prefixes are found.
        shortlist: See `RequestColumns`.
        make: See `RequestColumns`.
        key: See `RequestColumns`.
        own: See `RequestColumns`.
    """

    def __init__(
        self,
        cache: PrefixCache,
        shortlist: Shortlist,
        make: Keys,
        key: tuple[npt.DTypeLike, float],
        *own: tuple[npt.DTypeLike, float],
    ) -> None:
        anchors = Anchors(cache.config)
        self._columns = RequestColumns(anchors, shortlist, make, key, *own)
        super().__init__(cache, anchors, self._columns)

    def _add(self, request: Request, *own: float) -> None:
        """Add a request with its values."""
        self.forest.add(request)
        self._columns.add(request, self.forest.node_of(request), *own)

    def remove(self, request: Request) -> None:
        """See `QueuePolicy`."""
        self._columns.remove(request)
        self.forest.remove(request)
