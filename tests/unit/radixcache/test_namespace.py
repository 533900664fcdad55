import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache import RadixCacheError
from radixcache.errors import InvalidArgumentType
from radixcache.namespace import namespace_key

parts = st.one_of(st.none(), st.text("ab:0123stn\x00"), st.binary(max_size=6))
namespaces = st.one_of(parts, st.tuples(), st.lists(parts, max_size=4).map(tuple))


def typed(namespace: object) -> object:
    """The namespace with its types, so that `"a"` and `b"a"` differ."""
    if isinstance(namespace, tuple):
        return (tuple, *map(typed, namespace))
    return (type(namespace), namespace)


@pytest.mark.parametrize(
    ("namespace", "key"),
    [
        (None, b"n0:"),
        ("", b"s0:"),
        (b"", b"b0:"),
        ((), b"t0:"),
        ("model", b"s5:model"),
        ("é", b"s2:\xc3\xa9"),
        (("model-a", None, b"salt"), b"t3:s7:model-an0:b4:salt"),
        ((None,), b"t1:n0:"),
    ],
)
def test_golden_keys(namespace: object, key: bytes) -> None:
    assert namespace_key(namespace) == key


@given(namespaces, namespaces)
def test_distinct_namespaces_have_distinct_keys(one: object, other: object) -> None:
    assert (namespace_key(one) == namespace_key(other)) == (typed(one) == typed(other))


def test_no_two_of_all_small_namespaces_share_a_key() -> None:
    small = [None, "", b"", "a", b"a", ":", "s1:a", b"s1:a", "n0:", "1", "0:"]
    all_of_them = [
        *small,
        *((one,) for one in small),
        *product(small, repeat=2),
        *product(small[:5], repeat=3),
        (),
    ]
    assert len({namespace_key(namespace) for namespace in all_of_them}) == len(all_of_them)


def test_lone_surrogates_are_legal_and_distinct() -> None:
    keys = {namespace_key(text) for text in ("\ud800", "\udfff", "\U0001f600", "\ud83d\ude00", "?")}
    assert len(keys) == 5


class Name(str):
    __slots__ = ()


class Pair(tuple):
    __slots__ = ()


@pytest.mark.parametrize(
    "namespace",
    [1, True, 1.0, ["a"], {"a"}, frozenset("a"), bytearray(b"a"), Name("a"), Pair(("a",)), object],
)
def test_other_types_are_refused_by_value_and_type(namespace: object) -> None:
    with pytest.raises(InvalidArgumentType, match=type(namespace).__name__):
        namespace_key(namespace)


@pytest.mark.parametrize("part", [1, True, ("b",), ["b"], Name("b")])
def test_other_types_within_a_tuple_are_refused(part: object) -> None:
    with pytest.raises(InvalidArgumentType, match="a tuple of these"):
        namespace_key(("a", part))


def test_the_error_is_ours_and_a_type_error() -> None:
    assert issubclass(InvalidArgumentType, RadixCacheError)
    assert issubclass(InvalidArgumentType, TypeError)


@pytest.mark.parametrize("seed", ["0", "1"])
def test_keys_are_equal_in_every_process(seed: str) -> None:
    code = """
from radixcache.namespace import namespace_key
print(namespace_key(('a', None, b'b')).decode(), namespace_key(None).decode())
"""
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
    )
    assert found.stdout == "t3:s1:an0:b1:b n0:\n"


def test_no_bytes_are_compared_with_text_or_numbers() -> None:
    code = """
from radixcache import CacheConfig, PrefixCache, check
cache = PrefixCache(CacheConfig(num_pages=6, page_size=1, max_events=8, partial_reuse=True))
for turn in range(3):
    for namespace in (None, "a", b"a", "", b"", ("a",), (b"a",), ("a", None, b"b"), ()):
        with cache.open([1, 2, 3, turn], namespace) as seq:
            seq.reserve(4)
            seq.advance(4)
            other = seq.fork()
        other.abort()
        check(cache)
        cache.snapshot()
    cache.retire("a")
    cache.retire(b"a")
"""
    subprocess.run([sys.executable, "-bb", "-W", "error", "-c", code], check=True)
