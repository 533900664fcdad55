"""What LRU would keep in the same traffic, and which of it a policy let go: by counts alone."""

from collections import OrderedDict
from typing import NamedTuple


class _Entry:
    """Pages that were used last at one time; they are the shallowest of one path.

    LRU and the policy both let go of the ends of paths first, so the counts say which.
    """

    __slots__ = ("cached", "doomed", "kept")

    def __init__(self, num_pages: int) -> None:
        self.kept = num_pages
        """How many LRU keeps, the doomed ones included."""
        self.cached = num_pages
        """How many the policy keeps."""
        self.doomed = 0
        """How many LRU is about to let go for the request that is served now."""

    def exposed(self) -> int:
        """How many LRU will keep and the policy let go."""
        return max(0, self.kept - self.doomed - self.cached)


class Change(NamedTuple):
    """What became of exposed pages."""

    exposed: int = 0
    """How many more there are."""
    lost: int = 0
    """How many were asked for: LRU would have found them."""
    harmless: int = 0
    """How many LRU let go as well. Negative: it did not, after all."""


class LRUBooks:
    """Counts pages by their last use, as far back as LRU would keep them.

    Both caches hold as many pages. Where the policy makes room for a request, so would LRU, but it may
    need less, as it finds what the policy lost. So what goes from its books is doomed at first, and
    gone when the request's own pages come.

    Args:
        num_pages: Pages in the pool.

    Attributes:
        num_cached: Pages that the policy keeps.

    Complexity:
        Amortised O(1) for each call. Memory O(requests whose pages LRU keeps).
    """

    def __init__(self, num_pages: int) -> None:
        self._num_pages = num_pages
        self.num_cached = 0
        self._kept: OrderedDict[int, _Entry] = OrderedDict()
        self._doomed: OrderedDict[int, _Entry] = OrderedDict()
        """Entries that are doomed as a whole, older than all others."""
        self._num_kept = 0
        self._num_doomed = 0

    def __contains__(self, stamp: object) -> bool:
        """Whether LRU keeps a page used last at that time."""
        return stamp in self._kept or stamp in self._doomed

    def let_go(self, stamp: int, num_pages: int) -> Change:
        """The policy lets pages go that were used last at `stamp`."""
        self.num_cached -= num_pages
        harmless = 0
        while self._num_kept - self._num_doomed > self.num_cached:
            oldest, entry = next(iter(self._kept.items()))
            before = entry.exposed()
            gone = min(entry.kept - entry.doomed, self._num_kept - self._num_doomed - self.num_cached)
            entry.doomed += gone
            self._num_doomed += gone
            harmless += before - entry.exposed()
            if entry.doomed == entry.kept:
                self._doomed[oldest] = self._kept.pop(oldest)
        at = self._kept.get(stamp) or self._doomed.get(stamp)
        if at is None:
            return Change(-harmless, 0, harmless)
        before = at.exposed()
        at.cached -= num_pages
        return Change(at.exposed() - before - harmless, 0, harmless)

    def use_again(self, stamp: int, num_pages: int, *, were_cached: bool = True) -> tuple[int, Change]:
        """Pages used last at `stamp` are used now; `keep` follows. Returns: how many of them LRU did keep."""
        entry = self._kept.get(stamp) or self._doomed.get(stamp)
        if entry is None:
            return 0, Change()
        held = min(entry.kept, num_pages)
        before = entry.exposed()
        entry.kept -= held
        if were_cached:
            entry.cached -= num_pages
        saved = max(0, entry.doomed - entry.kept)
        entry.doomed -= saved
        self._num_kept -= held
        self._num_doomed -= saved
        if not entry.kept:
            (self._kept if stamp in self._kept else self._doomed).pop(stamp)
        fewer = before - entry.exposed()
        if were_cached:
            return held, Change(-fewer, 0, fewer)
        return held, Change(-fewer, held, fewer - held)

    def keep(self, stamp: int, num_pages: int, *, is_served: bool) -> Change:
        """Pages are used last at `stamp`, the latest time so far; LRU lets the oldest ones go.

        Args:
            stamp: The time.
            num_pages: How many.
            is_served: Whether the request has what it needs; if not, what is doomed may yet be spared.
        """
        self._kept[stamp] = _Entry(num_pages)
        self._num_kept += num_pages
        room = self.num_cached if is_served else self._num_pages
        harmless = 0
        while self._num_kept > room:
            entries = self._doomed or self._kept
            oldest, entry = next(iter(entries.items()))
            before = entry.exposed()
            gone = min(entry.kept, self._num_kept - room)
            entry.kept -= gone
            saved = min(gone, entry.doomed)
            entry.doomed -= saved
            self._num_kept -= gone
            self._num_doomed -= saved
            harmless += before - entry.exposed()
            if not entry.kept:
                del entries[oldest]
        if is_served:
            harmless -= self._spare()
        return Change(-harmless, 0, harmless)

    def _spare(self) -> int:
        """Nothing is doomed any more. Returns: how many pages are exposed for it."""
        exposed = 0
        if self._num_doomed:
            oldest = next(iter(self._kept))
            self._num_doomed = 0
            exposed += self._spared(self._kept[oldest])
            while self._doomed:
                stamp, entry = self._doomed.popitem()
                exposed += self._spared(entry)
                self._kept[stamp] = entry
                self._kept.move_to_end(stamp, last=False)
        return exposed

    @staticmethod
    def _spared(entry: _Entry) -> int:
        before = entry.exposed()
        entry.doomed = 0
        return entry.exposed() - before

    def drop(self, stamp: int, num_pages: int) -> Change:
        """Pages used last at `stamp` are no longer for anybody."""
        self.num_cached -= num_pages
        return self.use_again(stamp, num_pages)[1]

    def move(self, stamp: int, num_pages: int, to: int) -> Change:
        """Pages used last at `stamp` count as used last at `to`, if LRU keeps any of those."""
        entry = self._kept.get(to)
        if entry is None or stamp == to:
            return Change()
        held, change = self.use_again(stamp, num_pages)
        before = entry.exposed()
        entry.kept += held
        entry.cached += num_pages
        self._num_kept += held
        return change._replace(exposed=change.exposed + entry.exposed() - before)
