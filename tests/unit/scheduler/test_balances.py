import random

import numpy as np
import pytest

from scheduler.policies.balances import Balances


def test_whoever_is_not_known_has_nothing_even_in_the_row_of_one_who_was_forgotten():
    balances = Balances()
    row = balances.row_of("a")
    balances.set_deficit("a", 100)
    balances.forget(lambda client: False)
    assert balances.deficit("a") == balances.deficit("b") == 0
    assert balances.row_of("b") == row
    assert balances.deficit("b") == 0
    assert not balances.may_be_served(row)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_has_nothing_left_is_barred_whatever_was_charged_handed_out_and_forgotten(seed):
    rng, balances = random.Random(seed), Balances()
    clients = [str(number) for number in range(30)]
    expected: dict[str, float] = {}
    for _ in range(300):
        client, event = rng.choice(clients), rng.choice(["charge", "set", "round", "forget", "know"])
        if event == "charge":
            cost = rng.choice([0, 1, 30])
            balances.charge(client, cost)
            expected[client] = expected.get(client, 0) - cost
        elif event == "set":
            expected[client] = rng.choice([-5, 0, 5])
            balances.set_deficit(client, expected[client])
        elif event == "know":
            balances.row_of(client)
            expected.setdefault(client, 0)
        elif event == "forget" and rng.random() < 0.2:
            balances.forget(lambda each, kept=client: each < kept)
            expected = {each: left for each, left in expected.items() if each < client or left < 0}
        elif event == "round" and expected:
            some = rng.sample(sorted(expected), rng.randrange(1, len(expected) + 1))
            best = max(expected[each] for each in some)
            balances.begin_round([balances.row_of(each) for each in some], 10)
            expected = {each: left + 10 * (int(-best // 10) + 1) for each, left in expected.items()}
        rows = np.array([balances.row_of(each) for each in expected], dtype=np.int64)
        assert len(balances) == len(expected)
        assert [balances.deficit(each) for each in expected] == list(expected.values())
        assert [balances.may_be_served(row) for row in rows] == [left > 0 for left in expected.values()]
        assert (balances.bars(rows) == 0).tolist() == [left > 0 for left in expected.values()]
