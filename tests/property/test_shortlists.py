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
        ratios.removed(SimpleNamespace(number=rows.leave(found, 0.8)))
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
        ratios.removed(SimpleNamespace(number=rows.leave(found, 0.9)))
    assert size < 24 or looks["all"] < 60


class Served:
    """Requests of clients, their matches in pages, and the list that says which comes next.

    `rows` have the client's row and the match of each request.
    """

    def __init__(self, rng: random.Random, size: int) -> None:
        self.rng = rng
        self.rows = Rows(rng, (-1, BARRED))
        owners, pages = self.rows.columns
        self.rows.columns = [owners.astype(int), pages.astype(np.int32)]
        self.balances = Balances()
        self.clients = [f"{number}" for number in range(rng.choice([1, 3, 20, 40, 90]))]
        self.client_of: dict[int, str] = {}
        self.longest = LongestMatches(self.matches, lambda: None, self.balances)
        self.longest.size, self.longest.few = size, rng.choice([2, 32])
        self.num_coming = rng.randrange(1, len(self.clients) + 1)
        """So many of the clients send requests as yet."""

    def matches(self) -> Matches:
        numbers, owners, pages = self.rows.used()
        return Matches(numbers, np.maximum(owners, 0), pages)

    def request(self, row: int) -> SimpleNamespace:
        return SimpleNamespace(number=row, client=self.client_of[row])

    def change(self, row: int) -> None:
        client = self.client_of.setdefault(row, self.rng.choice(self.clients[: self.num_coming]))
        match = self.rng.choice([BARRED, 0, 0, 32, 64, self.rng.randrange(100)])
        self.rows.write(row, self.balances.row_of(client), match)
        self.longest.changed(self.request(row), match)

    def come(self) -> None:
        self.rows.num_rows += 1
        self.change(self.rows.num_rows - 1)

    def free(self) -> list[int]:
        return [row for row in self.rows.present if self.rows.columns[1][row] >= 0]

    def expected(self) -> int | None:
        allowed = [row for row in self.free() if self.balances.deficit(self.client_of[row]) > 0]
        return min(allowed, key=lambda row: (-self.rows.columns[1][row], row), default=None)

    def begin_round(self) -> None:
        owners = self.longest.clients()
        assert sorted(owners) == sorted({int(self.rows.columns[0][row]) for row in self.free()})
        if owners:
            self.balances.begin_round(owners, 40)
            self.longest.round_began()


@pytest.mark.parametrize("size", [1, 2, 24])
@pytest.mark.parametrize("seed", range(12))
def test_the_longest_match_of_a_client_that_may_be_served(size, seed):
    rng = random.Random(seed)
    served = Served(rng, size)
    for _ in range(NUM_ROWS):
        served.come()
    for turn in range(300):
        if turn == 100:
            served.num_coming = len(served.clients)
        if turn % 3 == 0:
            served.come()
        if rng.random() < 0.3:
            for row in rng.sample(served.rows.present, rng.randrange(1, 6)):
                served.change(row)
        if rng.random() < 0.02:
            served.longest.forget()
        served.balances.charge(rng.choice(served.clients), rng.choice([0, 1, 50, 50]))
        found = served.longest.first()
        assert found == served.expected()
        if found is None:
            served.begin_round()
            found = served.longest.first()
            assert found == served.expected()
        served.longest.removed(served.request(served.rows.leave(found, 0.8)))


@pytest.mark.parametrize("num_clients", [1, 2, 16, 32])
def test_a_few_clients_are_looked_at_together_once_whatever_rounds_begin(num_clients):
    """Each then has a list of its own, which a look at the client alone fills again."""
    served, looks = Served(random.Random(num_clients), 24), Counter()
    served.clients = [f"{number}" for number in range(num_clients)]
    served.num_coming, served.longest.few = num_clients, 32
    served.longest._settle = lambda: looks.update(["all"])
    for _ in range(NUM_ROWS):
        served.come()
    for _ in range(300):
        found = served.longest.first()
        if found is None:
            served.begin_round()
            found = served.longest.first()
        assert found == served.expected()
        served.balances.charge(served.client_of[found], 30)
        served.longest.removed(served.request(found))
        served.rows.write(found, *served.rows.blank)
        served.come()
    assert looks["all"] <= 1 + num_clients + 300 // 24


@pytest.mark.parametrize("few", [2, 32])
def test_lists_stay_short_whoever_comes_and_changes(few):
    served = Served(random.Random(few), 4)
    longest = served.longest
    served.clients, served.num_coming, longest.few = [str(number) for number in range(200)], 1, few
    for _ in range(100):
        served.come()
    for turn in range(3_000):
        if turn % 20 == 0:
            served.come()
        served.num_coming = 1 + turn // 15
        served.change(served.rng.choice(served.rows.present))
        if longest.first() is None:
            served.begin_round()
        assert longest.first() == served.expected()
        lists = longest._lists.values()
        assert len(lists) <= max(2 * few, 8 * longest.size)
        assert len(longest._bounds) <= 2 * len(lists) + 64 + 1
        for leading in lists:
            assert len(leading._pages) <= 4 * longest.size
            assert len(leading._heap) <= 8 * longest.size + 16
    for match in range(100, 1_000):  # each time it comes before all others
        longest.changed(served.request(0), match)
        assert len(longest._bounds) <= 2 * len(longest._lists) + 64 + 1
