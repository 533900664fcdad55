import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.waiting.rows import NumberedRows


def contents(rows: NumberedRows) -> dict[int, tuple[float, int]]:
    """Values by number; what stands in gaps is checked on the way."""
    found = {}
    rows.settle()
    for row, (first, second) in enumerate(zip(rows.column(0), rows.column(1), strict=True)):
        if second == -7:
            assert first == np.inf
        else:
            found[rows.number_at(row)] = (float(first), int(second))
    return found


@given(st.lists(st.one_of(st.just(None), st.integers(0, 99)), max_size=120), st.booleans())
def test_rows_hold_what_was_put_in_them_oldest_first(events, closing):
    rows = NumberedRows([(np.float64, np.inf), (np.int32, -7)])
    expected: dict[int, tuple[float, int]] = {}
    for number, event in enumerate(events):
        if event is None:
            row = rows.append(number, number / 2, number)
            expected[number] = (number / 2, number)
            assert rows.number_at(row) == number
        elif expected:
            leaving = sorted(expected)[event % len(expected)]
            rows.remove(leaving)
            del expected[leaving]
        if closing and number % 5 == 0:
            rows.close_gaps()
            assert len(rows.column(0)) == len(expected)
        assert list(contents(rows).items()) == list(expected.items())
        assert len(rows) == len(expected)
        assert len(rows.column(0)) <= 4 * len(expected) / 3 + 8
        if len(expected) > 1:
            some = list(expected)[::2]
            assert rows.column(1)[rows.rows_of(some)].tolist() == some
        if expected and number % 3:
            first = next(iter(expected))
            assert rows.row_of_first(first) == rows.row_of(first)


def test_memory_follows_those_that_wait():
    rows = NumberedRows([(np.float64, 0.0)])
    for number in range(5_000):
        rows.append(number, 1.0)
    for number in range(4_990):
        rows.remove(number)
    assert len(rows._numbers) <= 32
    assert rows.column(0)[rows.row_of(4_995)] == 1.0
