import numpy as np

from scheduler.policies.balances import BARRED, Balances


def bars(balances: Balances, *clients: str) -> list[bool]:
    """Who may not be served."""
    rows = np.array([balances.row_of(client) for client in clients])
    return [bar == BARRED for bar in balances.bars(rows).tolist()]


def test_only_who_has_something_left_may_be_served():
    balances = Balances()
    for client, deficit in (("a", 5), ("b", 0), ("c", -3)):
        balances.set_deficit(client, deficit)
    assert bars(balances, "a", "b", "c", "new") == [False, True, True, True]


def test_a_round_gives_as_many_quanta_as_the_least_indebted_needs():
    balances = Balances()
    for client, deficit in (("a", -25), ("b", -8), ("c", -4)):
        balances.set_deficit(client, deficit)
    balances.begin_round(np.array([balances.row_of("a"), balances.row_of("b")]), 4)
    assert [balances.deficit(client) for client in "abc"] == [-13, 4, 8]
    assert bars(balances, "a", "b", "c") == [True, False, False]


def test_rows_of_clients_that_were_forgotten_are_used_again_with_nothing_in_them():
    balances = Balances()
    for number in range(100):
        balances.set_deficit(f"{number}", number - 50)
    balances.begin_round(np.array([0]), 1_000)
    balances.set_deficit("owes", -1)
    balances.forget(lambda client: client == "99")
    assert len(balances) == 2
    assert balances.deficit("99") == 49 + 1_000
    assert balances.deficit("owes") == -1
    assert balances.deficit("50") == 0.0
    rows = {balances.row_of(f"next{number}") for number in range(99)}
    assert len(rows | {balances.row_of("99"), balances.row_of("owes")}) == 101
    assert max(rows) <= 100
    assert all(bars(balances, *(f"next{number}" for number in range(99))))
