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
