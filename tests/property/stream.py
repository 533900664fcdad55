"""A consumer of the numbered event stream that falls behind, loses events and gets some twice."""

import random

from radixcache import PrefixCache
from radixcache.errors import EventsLost
from radixcache.page_index import PageIndex


class Consumer:
    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._position = (0, 0)
        self.index = PageIndex(cache.config.page_size)

    def catch_up(self, rng: random.Random) -> bool:
        """Read what is new, or sleep through it; say whether the index is up to date now."""
        if rng.random() < 0.3:
            return False
        log = self._cache.events
        assert log is not None
        try:
            events = log.since(*self._position)
        except EventsLost:
            self.index.load(self._cache.snapshot())
        else:
            for event in events:
                if event is events[-1] or rng.random() < 0.95:
                    self.index.apply(event)
                    self.index.apply(rng.choice(events[: events.index(event) + 1]))
            if self.index.needs_snapshot:
                self.index.load(self._cache.snapshot())
        self._position = (log.epoch, log.next_sequence)
        return True
