"""The parts that the learning policies are made of, each against a slower or a larger truth."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcache.eviction.class_order import ClassOrder
from radixcache.eviction.hazard_model import Cell, HazardModel, attainable_rates
from radixcache.eviction.survival import NUM_BINS, AgeBins, Followed, SurvivalTable
from radixcache.eviction.tail_loss import TailLoss
from radixcache.node import Node

BINS = AgeBins(64.0)
# Beyond one half so few are left at the end that differences of the running sums lose their digits.
hazards = st.lists(st.floats(0.0, 0.5), min_size=NUM_BINS, max_size=NUM_BINS)


def rates_by_trying_all(hazard: list[float]) -> list[float]:
    best = [0.0] * NUM_BINS
    for start in range(NUM_BINS - 1):
        alive, time, returned = 1.0, 0.0, 0.0
        for age_bin in range(start, NUM_BINS - 1):
            width = BINS.ends[age_bin] - BINS.edges[age_bin]
            time += alive * width * (1 - hazard[age_bin] / 2)
            returned += alive * hazard[age_bin]
            alive *= 1 - hazard[age_bin]
            best[start] = max(best[start], returned / time)
    return best


@given(hazards)
def test_attainable_rates_are_the_best_of_all_ends(hazard: list[float]) -> None:
    assert attainable_rates(hazard, BINS) == pytest.approx(rates_by_trying_all(hazard), rel=1e-6, abs=1e-12)


def test_a_return_that_is_only_due_later_is_worth_something_now() -> None:
    hazard = [0.0] * NUM_BINS
    hazard[10] = 0.9
    rates = attainable_rates(hazard, BINS)
    assert 0 < rates[0] < rates[5] < rates[10]
    assert rates[11] == 0


def test_bins_cover_all_ages_and_grow() -> None:
    assert BINS.of(0.0) == 0
    assert BINS.of(0.99) == 0
    assert BINS.of(1.0) == 1
    assert BINS.of(1e18) == NUM_BINS - 1
    for number, (start, end) in enumerate(zip(BINS.edges, BINS.ends, strict=True)):
        assert BINS.of(start) == number
        assert start < end


def test_the_table_counts_those_at_risk_and_those_that_return() -> None:
    table = SurvivalTable(BINS)
    row = table.row("class")
    things = [Followed(0.0) for _ in range(10)]
    for thing in things:
        table.open(thing, row, 0.0)
    table.advance(5.0)
    for thing in things[:4]:
        table.returned(thing, 5.0)
        table.returned(thing, 6.0)  # counts once
    table.withdraw(things[4])
    table.advance(1e9)
    reached = BINS.of(5.0)
    assert table.at_risk[: reached + 1, row].tolist() == [9.0] * (reached + 1)
    assert table.at_risk[reached + 1, row] == 5
    assert table.returns[:, row].tolist() == [4.0 if number == reached else 0.0 for number in range(NUM_BINS)]


def test_what_is_at_an_age_still_counts_half() -> None:
    table = SurvivalTable(BINS)
    row = table.row("class")
    things = [Followed(0.0) for _ in range(4)]
    for thing in things:
        table.open(thing, row, 0.0)
    now = BINS.edges[3]
    table.returned(things[0], now)
    table.advance(now)
    assert table.at_risk[:5, row].tolist() == [4, 4, 4, 2.5, 0]
    table.withdraw(things[1])
    assert table.at_risk[:5, row].tolist() == [3, 3, 3, 2, 0]


def test_the_table_follows_a_bounded_number_of_things(monkeypatch) -> None:
    monkeypatch.setattr("radixcache.eviction.survival.MAX_FOLLOWED", 50)
    table = SurvivalTable(BINS)
    row = table.row("class")
    for number in range(1000):
        table.open(Followed(number), row, number)
        table.advance(number)
        assert sum(map(len, table._queues)) <= 50
    assert table.num_opened == 1000


def test_counts_fade() -> None:
    table = SurvivalTable(BINS)
    old, new = table.row("old"), table.row("new")
    for _ in range(100):
        thing = Followed(0.0)
        table.open(thing, old, 0.0)
        table.returned(thing, 1.0)
    for number in range(10 * 16384):
        thing = Followed(float(number))
        table.open(thing, new, number)
        table.returned(thing, number)
    assert table.returns[:, old].sum() < 1


def seen(num_each: dict[Cell, tuple[int, int]]) -> tuple[HazardModel, dict[Cell, int]]:
    """A model that saw, of each cell, so many visits and so many returns at age 4."""
    table = SurvivalTable(BINS)
    model = HazardModel(table)
    rows = {cell: model.row(cell) for cell in num_each}
    for cell, (visits, returns) in num_each.items():
        for number in range(visits):
            thing = Followed(0.0)
            table.open(thing, rows[cell], 0.0)
            if number < returns:
                table.returned(thing, 4.0)
    for _ in range(40):
        table.advance(4.0)
    model.refit()
    return model, rows


def test_a_group_of_which_nothing_was_seen_takes_the_pace_of_its_kind() -> None:
    table = SurvivalTable(BINS)
    model = HazardModel(table)
    slow = Cell((1, 8), 2, 1)
    for gap in (3, 4, 5):  # everybody returns after as long as before
        row = model.row(Cell((1, gap), 2, 1))
        for number in range(200):
            thing = Followed(0.0)
            table.open(thing, row, 0.0)
            if number < 100:
                table.returned(thing, BINS.edges[2 * gap])
    unseen = Cell((2, 8), 2, 1)
    model.row(slow)
    model.row(unseen)
    for _ in range(200):
        table.advance(BINS.edges[14])
    model.refit()
    of_slow, of_other_kind = model.rates(slow.group, 0), model.rates(unseen.group, 0)
    assert of_slow[16] > 1.5 * of_slow[17]
    assert of_slow[16] / of_slow[18] > 1.5 * of_other_kind[16] / of_other_kind[18]


def test_cells_that_return_more_stand_at_a_higher_level() -> None:
    often, seldom = Cell((1, 0), 2, 1), Cell((1, 0), 1, 1)
    model, rows = seen({often: (400, 300), seldom: (400, 50)})
    assert model.level(rows[often]) > 0 > model.level(rows[seldom])


def test_a_cell_of_which_little_was_seen_borrows_from_its_turn_and_its_size() -> None:
    cells = {
        Cell((1, 0), 1, 1): (400, 40),
        Cell((1, 0), 2, 1): (400, 200),
        Cell((1, 0), 1, 5): (400, 10),
        Cell((1, 0), 2, 5): (1, 0),
    }
    model, rows = seen(cells)
    low, high = model.level(rows[Cell((1, 0), 1, 5)]), model.level(rows[Cell((1, 0), 2, 1)])
    assert low < model.level(rows[Cell((1, 0), 2, 5)]) < high
    unseen = model.row(Cell((1, 0), 2, 5)._replace(turns=3))
    assert low < model.level(unseen) < high


def test_an_unseen_group_has_the_rates_of_all() -> None:
    model, _ = seen({Cell((1, 0), 1, 1): (400, 200)})
    assert model.rates((9, 9), 0)[0] > 0


@pytest.mark.parametrize(("lost", "expected"), [(0, 0), (1, 1), (3, 2), (8, 8), (100, 64)])
def test_tail_loss_is_the_power_of_two_that_most_lost(lost: int, expected: int) -> None:
    tail = TailLoss()
    for _ in range(100):
        tail.note(lost)
    assert tail.num_pages == expected
    assert tail.kept < 0.1 or not expected


def test_tail_loss_of_a_minority_is_no_tail() -> None:
    tail = TailLoss()
    for number in range(300):
        tail.note(5 if number % 3 == 0 else 0)
    assert tail.num_pages == 0
    assert tail.kept == 1


class Ages:
    """A policy of three classes whose worth rises, then falls, in steps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.version = 0

    def rank(self, node: Node):
        return node.state, node.stamp

    def value(self, key, age):
        step = int(age // 10)
        return float([0, 3, 5, 4, 2, 1][min(5, step)] * (key + 1)), 10.0 * (step + 1)


@given(st.integers(0, 10**6))
def test_the_class_order_finds_what_a_search_through_all_finds(seed: int) -> None:
    rng, policy = random.Random(seed), Ages()
    order, inside = ClassOrder(policy), []
    for number in range(60):
        policy.now += rng.randrange(4)
        if rng.random() < 0.7 or not inside:
            node = Node(number, b"", b"", 0)
            node.state, node.stamp = rng.randrange(3), int(policy.now) - rng.randrange(3)
            order.add(node)
            inside.append(node)
        elif rng.random() < 0.5:
            node = rng.choice(inside)
            node.stamp = int(policy.now)
            order.update(node)
        else:
            node = inside.pop(rng.randrange(len(inside)))
            order.discard(node)
            assert node.entry is None
        worth = [policy.value(node.state, policy.now - node.stamp)[0] for node in inside]
        assert len(order) == len(inside)
        first = order.first()
        assert (first is None) == (not inside)
        if first is not None:
            assert policy.value(first.state, policy.now - first.stamp)[0] == min(worth)
            assert order.nodes()[0] is first
            assert {id(node) for node in order.nodes()} == {id(node) for node in inside}
    while inside:
        first = order.first()
        order.pop_first()
        assert first.entry is None
        inside.remove(first)
    assert order.first() is None
