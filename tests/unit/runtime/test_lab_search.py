from hypothesis import given
from hypothesis import strategies as st

from runtime.lab.search import largest_holding

HIGH = 200


@given(
    limit=st.integers(-1, HIGH),
    start=st.integers(0, HIGH),
    stride=st.integers(1, 30),
)
def test_the_largest_step_that_holds_is_found_from_anywhere_and_none_is_tried_twice(limit, start, stride):
    tried = []

    def holds(step: int) -> bool:
        tried.append(step)
        return step <= limit

    found = largest_holding(holds, start=start, low=0, high=HIGH, stride=stride)
    assert found == (None if limit < 0 else limit)
    assert len(tried) == len(set(tried))
    assert len(tried) <= 2 * HIGH.bit_length() + 2


@given(
    holding=st.lists(st.booleans(), min_size=1, max_size=60),
    start=st.integers(0, 59),
    stride=st.integers(1, 9),
)
def test_where_steps_hold_here_and_there_an_edge_is_found(holding, start, stride):
    high = len(holding) - 1
    found = largest_holding(
        lambda step: holding[step], start=min(start, high), low=0, high=high, stride=stride
    )
    if found is None:
        assert not holding[0]
    else:
        assert holding[found]
        assert found == high or not holding[found + 1]


def test_a_near_answer_takes_two_tries():
    tried = []
    assert largest_holding(lambda step: tried.append(step) or step <= 70, start=70, low=0, high=HIGH) == 70
    assert tried == [70, 71]
