"""Where every waiting prompt leaves the cache, followed incrementally."""

from scheduler.waiting.choice import HEAVIEST, OLDEST
from scheduler.waiting.forest import WaitingForest

__all__ = ["HEAVIEST", "OLDEST", "WaitingForest"]
