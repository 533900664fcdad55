"""Observers that leave, and such as raise: all are told before that goes on, and a verb may be completed."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from radixcache.errors import InvalidArgument

_Observer = TypeVar("_Observer")


def without(observers: tuple[_Observer, ...], observer: _Observer) -> tuple[_Observer, ...]:
    """Those that stay; whoever is told at this moment is told to the end.

    Raises:
        InvalidArgument: The observer is none of them.
    """
    if observer not in observers:
        raise InvalidArgument(f"{observer!r} is not subscribed")
    place = observers.index(observer)
    return observers[:place] + observers[place + 1 :]


class ObserverErrors:
    """What observers raised. The first is raised again once all were told, or once nobody holds it back.

    What is no `Exception`, as a `KeyboardInterrupt`, is never held back longer than until all were told.

    Attributes:
        is_held: Whether somebody is at work that has to be complete before it is raised.
        noted: Observers and what they raised, oldest first.
    """

    def __init__(self) -> None:
        self.is_held = False
        self.noted: list[tuple[object, BaseException]] = []

    def tell(self, observers: Iterable[_Observer], *reports: Callable[[_Observer], object]) -> None:
        """Make every report to every observer, whatever one of them raises.

        Raises:
            BaseException: What an observer raised, if it is not held back.
        """
        for observer in observers:
            for report in reports:
                try:
                    report(observer)
                except BaseException as error:  # noqa: BLE001  # the others are told all the same
                    self.note(observer, error)
        if self.noted:
            self.settle()

    def note(self, observer: object, error: BaseException) -> None:
        """An observer raised."""
        self.noted.append((observer, error))

    def settle(self) -> None:
        """All were told: raise what was noted first and forget the others. For where `noted` is not empty.

        Raises:
            BaseException: What an observer raised, if it is not held back.
        """
        errors = [error for _, error in self.noted]
        if self.is_held:
            errors = [error for error in errors if not isinstance(error, Exception)]
        if errors:
            self.noted.clear()
            raise errors[0]
