"""What the cache tells the outside: observers, and a numbered stream for an index elsewhere."""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

from radixcache.allocator import PageArray
from radixcache.errors import EventsLost
from radixcache.namespace import Namespace
from radixcache.tokens import Tokens


class CacheObserver(Protocol):
    """Told of every change of the set of cached pages, after the change is complete.

    An observer may peek, never change. Page ids survive splits and merges, so nothing else is reported.
    It should not raise: once all observers were told, the verb breaks off with it, and its sequence has to be
    aborted. Within a verb of a scheduler it waits until that verb is complete.
    """

    def published(
        self,
        namespace: Namespace,
        parent_page: int | None,
        new_pages: PageArray,
        tokens: Tokens,
        depth: int,
    ) -> None:
        """New pages became visible, as one run.

        Args:
            namespace: Where.
            parent_page: The page before the run; `None` at a root.
            new_pages: Page ids in position order, int32 of shape [n].
            tokens: Their tokens, n * page_size.
            depth: Pages before the run.
        """
        ...

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        """The tail of a branch went, as one run; children are reported before parents.

        Args:
            namespace: Where.
            pages: Page ids in position order, int32 of shape [n].
            surviving_parent_page: The page before the run; `None` at a root.
            depth: Pages before the run.
        """
        ...

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        """Every page of `namespace` went, or with `everything` of all."""
        ...


@dataclass(frozen=True, slots=True)
class Stored:
    """Pages became visible: `pages[i]` holds the i-th page of `tokens` behind `parent_page`."""

    epoch: int
    sequence: int
    namespace: Namespace
    parent_page: int | None
    pages: tuple[int, ...]
    tokens: Tokens


@dataclass(frozen=True, slots=True)
class Removed:
    """Pages are gone."""

    epoch: int
    sequence: int
    namespace: Namespace
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cleared:
    """All pages of a namespace are gone, or with `everything` of all namespaces."""

    epoch: int
    sequence: int
    namespace: Namespace
    everything: bool


Event: TypeAlias = Stored | Removed | Cleared


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cached pages at one moment: what the stream up to `sequence` (exclusive) of `epoch` adds up to.

    `stored` lists runs of pages, parents before children; their own numbers are all `sequence`.
    """

    epoch: int
    sequence: int
    stored: tuple[Stored, ...]


class EventLog:
    """Observer that numbers the changes and keeps the latest `max_events` of them.

    A reset begins a new epoch, whose events are counted from 0; the first is the `Cleared` of everything.
    A consumer that sees a number missing asks `since`, and if that raises, takes a snapshot.
    """

    def __init__(self, max_events: int) -> None:
        self.epoch = 0
        self.next_sequence = 0
        self._events: deque[Event] = deque(maxlen=max_events)

    def since(self, epoch: int, sequence: int) -> tuple[Event, ...]:
        """The events from number `sequence` of `epoch` on, oldest first; empty when there are none yet.

        Raises:
            EventsLost: They left the buffer, are of an earlier epoch, or were never sent.

        Complexity:
            O(events returned).
        """
        missing = self.next_sequence - sequence
        if epoch != self.epoch or not 0 <= missing <= len(self._events):
            raise EventsLost(
                f"events from number {sequence} of epoch {epoch} are not here; the buffer holds "
                f"{self.next_sequence - len(self._events)} to {self.next_sequence - 1} of epoch {self.epoch}"
            )
        newest_first = list(islice(reversed(self._events), missing))
        return tuple(reversed(newest_first))

    def published(
        self,
        namespace: Namespace,
        parent_page: int | None,
        new_pages: PageArray,
        tokens: Tokens,
        depth: int,
    ) -> None:
        """See `CacheObserver`."""
        pages = tuple(new_pages.tolist())
        self._append(Stored(self.epoch, self.next_sequence, namespace, parent_page, pages, tokens))

    def evicted(
        self, namespace: Namespace, pages: PageArray, surviving_parent_page: int | None, depth: int
    ) -> None:
        """See `CacheObserver`."""
        self._append(Removed(self.epoch, self.next_sequence, namespace, tuple(pages.tolist())))

    def cleared(self, namespace: Namespace, *, everything: bool) -> None:
        """See `CacheObserver`."""
        if everything:
            self.epoch += 1
            self.next_sequence = 0
            self._events.clear()
        self._append(Cleared(self.epoch, self.next_sequence, namespace, everything))

    def _append(self, event: Event) -> None:
        self._events.append(event)
        self.next_sequence += 1
