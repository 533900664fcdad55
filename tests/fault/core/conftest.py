"""Every verb of a test here, whether it worked or raised, is followed by `check`."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from radixcache import PrefixCache, Sequence, check

_OF_CACHE = ("peek", "open", "evict", "reset", "retire")
_OF_SEQUENCE = ("reserve", "advance", "append", "publish", "fork", "take_copies", "close", "abort")


@pytest.fixture(autouse=True)
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrap the verbs; tests marked `rarely_checked` by fixture check by themselves."""
    if "rarely_checked" in request.fixturenames:
        return
    depth = 0

    def wrapped(verb: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return verb(self, *args, **kwargs)
            finally:
                depth -= 1
                if not depth:  # not within another verb, nor within an observer that one is telling
                    state = self._state if isinstance(self, PrefixCache) else self._cache
                    check(SimpleNamespace(_state=state))  # type: ignore[arg-type]

        return run

    for kind, names in ((PrefixCache, _OF_CACHE), (Sequence, _OF_SEQUENCE)):
        for name in names:
            monkeypatch.setattr(kind, name, wrapped(getattr(kind, name)))


@pytest.fixture
def rarely_checked() -> None:
    """For long runs, which check now and then."""
