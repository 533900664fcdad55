"""Calls that must be refused, each with the built-in error it must raise."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from radixcache import PrefixCache, RadixCacheError, Sequence

ENDED_VERBS = ("publish", "fork", "close", "abort", "take_copies")


class Misuse(NamedTuple):
    what: str
    call: Callable[[], Any]
    error: type[Exception]


def refused(misuse: Misuse) -> None:
    """Run it; it must raise our error, which is also the built-in one."""
    with pytest.raises(RadixCacheError) as caught:
        misuse.call()
    assert isinstance(caught.value, misuse.error), f"{misuse.what} raised {caught.value!r}"
    assert str(caught.value), f"{misuse.what} raised an error without a word"


def of_cache(cache: PrefixCache) -> Iterator[Misuse]:
    for prompt, error in (
        ([], ValueError),
        ([1, -2], ValueError),
        ([2**31], ValueError),
        ([1.0], TypeError),
        ([[1]], TypeError),
        (np.ones((1, 2), dtype=np.int64), TypeError),
        (np.array([2**40]), ValueError),
        (np.array([0.5]), TypeError),
        (b"abc", ValueError),
        ("text", TypeError),
        (None, TypeError),
        ({1, 2}, TypeError),
    ):
        yield Misuse(f"open({prompt!r})", lambda prompt=prompt: cache.open(prompt), error)
        yield Misuse(f"peek({prompt!r})", lambda prompt=prompt: cache.peek(prompt), error)
    for namespace in (1, True, 1.0, ["a"], ("a", 1), ("a", ("b",)), frozenset("a")):
        yield Misuse(
            f"open in {namespace!r}", lambda namespace=namespace: cache.open([1], namespace), TypeError
        )
        yield Misuse(
            f"peek in {namespace!r}", lambda namespace=namespace: cache.peek([1], namespace), TypeError
        )
        yield Misuse(f"retire {namespace!r}", lambda namespace=namespace: cache.retire(namespace), TypeError)
    for hint, error in (
        ({"priority": -1}, ValueError),
        ({"priority": 1.5}, TypeError),
        ({"priority": "high"}, TypeError),
        ({"retain": -0.1}, ValueError),
        ({"retain": float("nan")}, ValueError),
        ({"retain": float("inf")}, ValueError),
        ({"retain": "long"}, TypeError),
    ):
        yield Misuse(f"open with {hint}", lambda hint=hint: cache.open([1], "new", **hint), error)
    yield Misuse("evict(-1)", lambda: cache.evict(-1), ValueError)
    yield Misuse("evict(1.5)", lambda: cache.evict(1.5), TypeError)  # type: ignore[arg-type]
    yield Misuse("unsubscribe a stranger", lambda: cache.unsubscribe(object()), ValueError)  # type: ignore[arg-type]
    for now, error in ((float("nan"), ValueError), (float("inf"), ValueError), ("noon", TypeError)):
        yield Misuse(f"advance_time({now!r})", lambda now=now: cache.advance_time(now), error)
    if cache.stats.live_sequences:
        yield Misuse("reset while sequences live", cache.reset, RuntimeError)


def of_live(seq: Sequence) -> Iterator[Misuse]:
    for length, error in (
        (0, ValueError),
        (-3, ValueError),
        (1.0, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ):
        yield Misuse(f"reserve({length!r})", lambda length=length: seq.reserve(length), error)
    for token_ids, error in (([-1], ValueError), ([1.5], TypeError), ("a", TypeError), (3, TypeError)):
        yield Misuse(f"append({token_ids!r})", lambda token_ids=token_ids: seq.append(token_ids), error)
    for start, stop, error in (
        (-1, 0, ValueError),
        (1, 0, ValueError),
        (0, seq.reserved_len + 1, ValueError),
        (0.0, 1.0, TypeError),
        ("0", "1", TypeError),
    ):
        yield Misuse(
            f"slots({start!r}, {stop!r})", lambda start=start, stop=stop: seq.slots(start, stop), error
        )
    if seq.state == "open":
        yield Misuse("advance before reserve", lambda: seq.advance(1), RuntimeError)
        return
    if len(seq._copies):
        yield Misuse("advance with untaken copies", lambda: seq.advance(1), RuntimeError)
        yield Misuse("fork with untaken copies", seq.fork, RuntimeError)
        return
    room = min(seq.num_tokens, seq.reserved_len) - seq.computed_len
    for length, error in (
        (room + 1, ValueError),
        (np.int64(room + 1), ValueError),
        (-1, ValueError),
        (0.5, TypeError),
        ("1", TypeError),
    ):
        yield Misuse(f"advance({length!r})", lambda length=length: seq.advance(length), error)


def of_ended(seq: Sequence) -> Iterator[Misuse]:
    for verb in ENDED_VERBS:
        yield Misuse(f"{verb} after {seq.state}", getattr(seq, verb), RuntimeError)
    yield Misuse("reserve after the end", lambda: seq.reserve(1), RuntimeError)
    yield Misuse("advance after the end", lambda: seq.advance(0), RuntimeError)
    yield Misuse("append after the end", lambda: seq.append([1]), RuntimeError)
    yield Misuse("page_table after the end", lambda: seq.page_table, RuntimeError)
    yield Misuse("slots after the end", lambda: seq.slots(0, 0), RuntimeError)
