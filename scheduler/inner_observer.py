"""Tells the observers of the cache that are part of the scheduler from those of others."""


class InnerObserver:
    """Base of the observers of the cache that keep the scheduler's own books.

    Where one raises, its books are half written, and the scheduler cannot go on.
    """
