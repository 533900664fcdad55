"""Notices that requests wait, and plan after plan runs none."""

from radixcache import PrefixCache
from scheduler.errors import Stalled


class StallWatch:
    """Counts plans in a row that did nothing while somebody waited or ran.

    Args:
        cache: Named in the error.
        max_empty_plans: So many in a row are a stall.
    """

    def __init__(self, cache: PrefixCache, max_empty_plans: int) -> None:
        self._cache = cache
        self._max_empty_plans = max_empty_plans
        self._num_empty_plans = 0

    def note(self, *, is_stuck: bool, num_waiting: int, num_running: int) -> None:
        """A plan was made.

        Args:
            is_stuck: Whether it did nothing, though there was something to do.
            num_waiting: Requests that wait.
            num_running: Requests that run.

        Raises:
            Stalled: `max_empty_plans` in a row did nothing.
        """
        self._num_empty_plans = self._num_empty_plans + 1 if is_stuck else 0
        if self._num_empty_plans >= self._max_empty_plans:
            raise Stalled(
                f"{num_waiting} requests wait, {num_running} run, and "
                f"{self._num_empty_plans} plans in a row were empty; pages: {self._cache.pages}"
            )
