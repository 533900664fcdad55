"""Short lists name whom looking at everybody names, whatever comes, goes and changes meanwhile."""

import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from scheduler.policies.balances import BARRED, Balances
from scheduler.policies.matches import LongestMatches, Matches
from scheduler.policies.ratios import HighestRatios, Lines

NUM_ROWS = 400


class Rows:
    """Requests with two values each; who left has blanks."""

    def __init__(self, rng: random.Random, blank: tuple[float, float]) -> None:
        self.rng = rng
        self.blank = blank
        self.columns = [np.full(4 * NUM_ROWS, value) for value in blank]
        self.num_rows = 0

    @property
    def present(self) -> list[int]:
        return [row for row in range(self.num_rows) if self.columns[0][row] != self.blank[0]]

    def write(self, row: int, *values: float) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column[row] = value

    def leave(self, first: int | None, share: float) -> int:
        """Mostly who is first, now and then anybody; returns who."""
        is_first = first is not None and self.rng.random() < share
        leaving = first if is_first else self.rng.choice(self.present)
        self.write(leaving, *self.blank)
        return leaving

    def used(self) -> tuple[np.ndarray, ...]:
        return np.arange(self.num_rows), *(column[: self.num_rows] for column in self.columns)


def highest_ratio(rows: Rows, now: float) -> int | None:
    """Of requests with times of submission and tokens to compute, infinitely many where held."""
    ratios = [
        ((now - rows.columns[0][row] + 1.0) / rows.columns[1][row], -row)
        for row in rows.present
        if rows.columns[1][row] != np.inf
    ]
    return -max(ratios)[1] if ratios else None


@pytest.mark.parametrize("size", [1, 2, 24])
@pytest.mark.parametrize("seed", range(12))
def test_the_highest_ratio(size, seed):
    rng = random.Random(seed)
    rows = Rows(rng, (-1.0, np.inf))
    looks: Counter[str] = Counter()

    def lines() -> Lines:
        return Lines(*rows.used())

    ratios = HighestRatios(lines, lambda: looks.update(["all"]))
    ratios.size = size
    now = scale = rng.choice([0.0, 1.0, 1.7e9])
    step = rng.choice([1.0, 1e-3, 0.0, 37.5])

    def tokens() -> float:
        return float(rng.choice([np.inf, 16, 17, rng.randrange(1, 12_000), rng.randrange(4_000, 12_000)]))

    def write(row: int, since: float) -> None:
        rows.write(row, since, tokens())

    def tell(row: int) -> None:
        since, uncached = (float(column[row]) for column in rows.columns)
        ratios.changed(SimpleNamespace(number=row, submitted_at=since), uncached)

    for _ in range(NUM_ROWS):
        write(rows.num_rows, now)
        rows.num_rows += 1
        tell(rows.num_rows - 1)
        now += step * rng.random()
    for turn in range(300):
        now += rng.choice([0.0, step, step * rng.random(), step * 20 if rng.random() < 0.05 else step])
        if rng.random() < 0.01:
            now = max(scale, now - 100 * step)
        if turn % 3 == 0:
            write(rows.num_rows, now)
            rows.num_rows += 1
            tell(rows.num_rows - 1)
        if rng.random() < 0.3 and rows.present:
            changing = rng.sample(rows.present, min(len(rows.present), rng.randrange(1, 6)))
            for row in changing:
                write(row, rows.columns[0][row])
                tell(row)
        found = ratios.first(now)
        assert found == highest_ratio(rows, now)
        ratios.removed(rows.leave(found, 0.8))
    assert size < 24 or step == 0.0 or looks["all"] < 150


@pytest.mark.parametrize("size", [1, 2, 24])
@pytest.mark.parametrize("seed", range(12))
def test_the_highest_ratio_where_many_came_at_once_with_one_length(size, seed):
    rng = random.Random(seed)
    rows = Rows(rng, (-1.0, np.inf))
    looks: Counter[str] = Counter()
    ratios = HighestRatios(lambda: Lines(*rows.used()), lambda: looks.update(["all"]))
    ratios.size = size
    now = 1.0
    lengths = rng.choice([[100], [100, 101], [100, 200, np.inf], [100, 100, 100, 5000]])

    def put(row: int, since: float, uncached: float) -> None:
        rows.write(row, since, uncached)
        ratios.changed(SimpleNamespace(number=row, submitted_at=since), uncached)

    for _ in range(NUM_ROWS):
        put(rows.num_rows, now, float(rng.choice(lengths)))
        rows.num_rows += 1
    for turn in range(350):
        now += rng.choice([0.0, 0.5, 1.0])
        if turn % 7 == 0:
            put(rows.num_rows, rng.choice([1.0, now]), float(rng.choice(lengths)))
            rows.num_rows += 1
        if rng.random() < 0.2:
            row = rng.choice(rows.present)
            put(row, rows.columns[0][row], float(rng.choice(lengths)))
        found = ratios.first(now)
        assert found == highest_ratio(rows, now)
        ratios.removed(rows.leave(found, 0.9))
    assert size < 24 or looks["all"] < 60


@pytest.mark.parametrize("size", [1, 2, 24])
@pytest.mark.parametrize("seed", range(12))
def test_the_longest_match_of_a_client_that_may_be_served(size, seed):
    rng = random.Random(seed)
    rows = Rows(rng, (-1, BARRED))
    rows.columns = [column.astype(dtype) for column, dtype in zip(rows.columns, (int, np.int32), strict=True)]
    balances, clients = Balances(), [f"{number}" for number in range(rng.choice([1, 3, 40]))]
    served = [balances.row_of(client) for client in clients]

    def matches() -> Matches:
        numbers, owners, pages = rows.used()
        return Matches(numbers, np.maximum(owners, 0), pages)

    longest = LongestMatches(matches, lambda: None, balances)
    longest.size = size

    def pages() -> int:
        return rng.choice([BARRED, 0, 0, 32, 64, rng.randrange(100)])

    def tell(row: int) -> None:
        owner, match = (column[row] for column in rows.columns)
        longest.changed(SimpleNamespace(number=row, client=clients[served.index(owner)]), match)

    def come() -> None:
        rows.write(rows.num_rows, rng.choice(served), pages())
        rows.num_rows += 1
        tell(rows.num_rows - 1)

    for _ in range(NUM_ROWS):
        come()
    for turn in range(300):
        if turn % 3 == 0:
            come()
        if rng.random() < 0.3:
            changing = rng.sample(rows.present, rng.randrange(1, 6))
            for row in changing:
                rows.columns[1][row] = pages()
                tell(row)
        balances.charge(rng.choice(clients), rng.choice([0, 1, 50, 50]))
        free = [row for row in rows.present if rows.columns[1][row] >= 0]
        allowed = [row for row in free if balances.deficit(clients[served.index(rows.columns[0][row])]) > 0]
        found = longest.first()
        assert found == min(allowed, key=lambda row: (-rows.columns[1][row], row), default=None)
        if found is None:
            owners = longest.clients()
            assert sorted(set(owners)) == sorted({int(rows.columns[0][row]) for row in free})
            if len(owners):
                balances.begin_round(owners, 40)
                longest.forget()
            found = longest.first()
        longest.removed(rows.leave(found, 0.8))
