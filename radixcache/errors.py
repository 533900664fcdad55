"""What this package raises. Every class is also the built-in that a caller would already catch."""

import difflib
from collections.abc import Iterable
from typing import Any


def _restored(kind: type[Exception], args: tuple[Any, ...], fields: dict[str, Any]) -> Exception:
    error = Exception.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class RadixCacheError(Exception):
    """Base of everything that radixcache, scheduler and runtime raise on purpose. Can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


class InvalidTokens(RadixCacheError, ValueError):
    """A token sequence holds something that is no token id, or nothing at all."""


class InvalidTokenType(RadixCacheError, TypeError):
    """A token sequence is of a type, dtype or shape that cannot hold token ids."""


class InvalidConfig(RadixCacheError, ValueError):
    """A setting lies outside its range, or names something unknown."""


class UnknownName(InvalidConfig):
    """A name stands in no table of what was asked for.

    Attributes:
        name: What was asked for.
        nearest: Known names that look like it, best first; may be empty.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        self.name = name
        self.nearest = _nearest(name, names)
        hint = f"did you mean {', '.join(self.nearest)}? " if self.nearest else ""
        super().__init__(f"unknown {kind} {name!r}: {hint}known are {', '.join(names)}")


def _nearest(name: str, known: list[str]) -> tuple[str, ...]:
    """Up to three names that begin alike or are spelled alike, regardless of case."""
    wanted = name.casefold()
    folded = {known_name.casefold(): known_name for known_name in known}
    begin = [candidate for candidate in folded if wanted and candidate.startswith(wanted)]
    alike = difflib.get_close_matches(wanted, folded, n=3, cutoff=0.5)
    return tuple(folded[candidate] for candidate in dict.fromkeys([*begin, *alike]))[:3]


class InvalidArgument(RadixCacheError, ValueError):
    """An argument of a verb lies outside its range."""


class InvalidArgumentType(RadixCacheError, TypeError):
    """An argument of a verb is of a wrong type."""


class OutOfPages(RadixCacheError, MemoryError):
    """More pages are needed than could be freed. Nothing was changed.

    Attributes:
        needed: Pages that were asked for.
        free: Empty pages.
        evictable: Cached pages that nobody uses.
        locked: Cached pages in use.
    """

    def __init__(self, *, needed: int, free: int, evictable: int, locked: int) -> None:
        super().__init__(
            f"{needed} pages needed, {free + evictable} available "
            f"({free} free + {evictable} evictable; {locked} locked)"
        )
        self.needed = needed
        self.free = free
        self.evictable = evictable
        self.locked = locked


class SequenceStateError(RadixCacheError, RuntimeError):
    """A verb was called in a state in which it is not legal. Nothing was changed."""


class CacheBusy(RadixCacheError, RuntimeError):
    """The cache cannot be cleared while sequences live in it."""


class DoubleFree(RadixCacheError, ValueError):
    """A page was given back that is free already, twice in one call, or none of this pool."""


class EventsLost(RadixCacheError, LookupError):
    """Events that were asked for left the bounded buffer; take a snapshot."""


class InvariantViolation(RadixCacheError, AssertionError):
    """`check` found broken invariants.

    Attributes:
        violations: One line for each, beginning with the invariant's name.
    """

    def __init__(self, violations: list[str]) -> None:
        super().__init__("\n".join(violations))
        self.violations = violations
