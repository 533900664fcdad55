import inspect

import pytest

from radixcache import OutOfPages, RadixCacheError, errors
from radixcache.errors import InvariantViolation

BUILTIN = {
    "InvalidTokens": ValueError,
    "InvalidTokenType": TypeError,
    "InvalidConfig": ValueError,
    "UnknownName": ValueError,
    "InvalidArgument": ValueError,
    "InvalidArgumentType": TypeError,
    "OutOfPages": MemoryError,
    "SequenceStateError": RuntimeError,
    "CacheBusy": RuntimeError,
    "DoubleFree": ValueError,
    "EventsLost": LookupError,
    "InvariantViolation": AssertionError,
}


def test_the_table_names_every_error() -> None:
    found = {
        name
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, Exception) and each is not RadixCacheError
    }
    assert found == set(BUILTIN)


@pytest.mark.parametrize(("name", "builtin"), BUILTIN.items())
def test_every_error_is_ours_and_the_builtin_a_caller_would_catch(
    name: str, builtin: type[Exception]
) -> None:
    error = getattr(errors, name)
    assert issubclass(error, RadixCacheError)
    assert issubclass(error, builtin)


def test_out_of_pages_says_how_many_were_needed_free_evictable_and_locked() -> None:
    error = OutOfPages(needed=9, free=1, evictable=3, locked=5)
    assert (error.needed, error.free, error.evictable, error.locked) == (9, 1, 3, 5)
    assert str(error) == "9 pages needed, 4 available (1 free + 3 evictable; 5 locked)"


def test_a_violation_has_one_line_each() -> None:
    error = InvariantViolation(["I1 one", "I4 two"])
    assert error.violations == ["I1 one", "I4 two"]
    assert str(error) == "I1 one\nI4 two"
