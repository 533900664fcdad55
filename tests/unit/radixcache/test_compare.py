import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.compare import common_units


def plain(data: bytes, at: int, limit: int, other: bytes, unit: int) -> int:
    count = 0
    while (
        at + (count + 1) * unit <= limit
        and (count + 1) * unit <= len(other)
        and data[at + count * unit : at + (count + 1) * unit] == other[count * unit : (count + 1) * unit]
    ):
        count += 1
    return count


@pytest.mark.parametrize(
    ("data", "at", "limit", "other", "unit", "expected"),
    [
        (b"abcd", 0, 4, b"abcd", 2, 2),
        (b"abcd", 0, 4, b"abxx", 2, 1),
        (b"abcd", 0, 4, b"axcd", 2, 0),
        (b"abcd", 0, 3, b"abcd", 2, 1),
        (b"abcd", 0, 4, b"abc", 2, 1),
        (b"abcd", 2, 4, b"cd", 2, 1),
        (b"abcd", 4, 4, b"ab", 2, 0),
        (b"abcd", 0, 4, b"", 2, 0),
        (b"abcd", 6, 4, b"ab", 2, 0),
        (b"", 0, 0, b"ab", 1, 0),
    ],
)
def test_counts_leading_units_that_agree(
    data: bytes, at: int, limit: int, other: bytes, unit: int, expected: int
) -> None:
    assert common_units(data, at, limit, other, unit) == expected


@pytest.mark.parametrize("length", [*range(20), 63, 64, 65])
def test_finds_every_place_where_two_buffers_part(length: int) -> None:
    data = bytes(range(length))
    for place in range(length):
        other = bytearray(data)
        other[place] ^= 0xFF
        assert common_units(data, 0, length, bytes(other), 1) == place


@given(
    st.binary(max_size=40),
    st.integers(0, 8),
    st.integers(0, 45),
    st.binary(max_size=40),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(0, 40),
)
def test_agrees_with_a_plain_loop(
    data: bytes, at: int, limit: int, other: bytes, unit: int, shared: int
) -> None:
    limit = min(limit, len(data))
    other = data[at : at + shared] + other
    assert common_units(data, at, limit, other, unit) == plain(data, at, limit, other, unit)
