import math

import numpy as np
import pytest

from radixcache.arguments import as_integer, as_seconds
from radixcache.errors import InvalidArgument, InvalidArgumentType


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_integers_of_every_kind_become_plain_ones(value: object) -> None:
    assert type(as_integer("it", value)) is int
    assert as_integer("it", value) == 3


@pytest.mark.parametrize("value", [1.0, "1", None, [1], np.float64(1), 1j])
def test_other_types_are_no_integers(value: object) -> None:
    with pytest.raises(InvalidArgumentType, match="extend_len is an integer, got"):
        as_integer("extend_len", value)


@pytest.mark.parametrize("value", [3, 3.0, np.int8(3), np.float32(3)])
def test_numbers_of_every_kind_become_seconds(value: object) -> None:
    assert type(as_seconds("it", value)) is float
    assert as_seconds("it", value) == 3.0


@pytest.mark.parametrize("value", ["1", None, [1], 1j])
def test_other_types_are_no_seconds(value: object) -> None:
    with pytest.raises(InvalidArgumentType, match="now is a number of seconds, got"):
        as_seconds("now", value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), 10**400])
def test_seconds_are_finite(value: object) -> None:
    with pytest.raises(InvalidArgument, match="retain is a finite number of seconds, got"):
        as_seconds("retain", value)
