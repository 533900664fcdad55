from itertools import pairwise

import pytest

from radixcache.errors import InvalidConfig
from runtime.lab.ladder import Ladder
from runtime.simulation import ClosedLoop, OpenLoop
from tests.unit.runtime.simulated import turn, workload

TEN = workload(*[(float(n), [turn(100 * n, 8)]) for n in range(10)])


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.5, 1.0])
def test_rates_stand_one_tolerance_apart_around_the_workloads_own(tolerance):
    ladder = Ladder.of("rate", TEN, tolerance)
    assert ladder.values[ladder.start] == 1
    assert ladder.values[0] <= 1 / 4096 < 4096 <= ladder.values[-1]
    for low, high in pairwise(ladder.values):
        assert high / low == pytest.approx(1 + tolerance)
    doubled = ladder.values[ladder.start + ladder.doubling]
    assert 2 / (1 + tolerance) < doubled < 2 * (1 + tolerance)
    assert ladder.pace(ladder.start) == OpenLoop(1.0)


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.5, 1.0])
def test_users_go_from_one_to_one_for_each_session(tolerance):
    ladder = Ladder.of("users", TEN, tolerance)
    assert (ladder.values[0], ladder.values[-1]) == (1, 10)
    for low, high in pairwise(ladder.values):
        assert low < high <= max(low + 1, low * (1 + tolerance))
    assert ladder.pace(0) == ClosedLoop(1)


@pytest.mark.parametrize("tolerance", [0, -0.1, 1.1, float("nan")])
def test_a_tolerance_out_of_range_is_refused(tolerance):
    with pytest.raises(InvalidConfig, match=f"tolerance lies in .0, 1., got {tolerance}"):
        Ladder.of("rate", TEN, tolerance)
