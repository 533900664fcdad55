import os
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from radixcache.errors import InvalidConfig
from runtime.lab.parallel import run_all


def square_or_fail(number: int) -> int:
    """What the processes do: 13 raises, 99 takes its process with it."""
    if number == 13:
        raise ValueError("unlucky")
    if number == 99:
        time.sleep(0.2)
        os._exit(1)
    return number * number


def test_results_stand_in_the_order_of_the_jobs_and_an_error_stops_nothing():
    done = []
    found = run_all(square_or_fail, [3, 13, 5], workers=2, on_done=done.append)
    assert (found[0], found[2]) == (9, 25)
    assert isinstance(found[1], ValueError)
    assert sorted(done) == [0, 1, 2]


def test_a_process_that_dies_loses_its_own_job_only():
    found = run_all(square_or_fail, [3, 99, 5], workers=1)
    assert (found[0], found[2]) == (9, 25)
    assert isinstance(found[1], BrokenProcessPool)


def test_no_jobs_are_done_at_once():
    assert run_all(square_or_fail, [], workers=2) == []


@pytest.mark.parametrize("workers", [0, -1])
def test_a_number_of_workers_below_one_is_refused(workers):
    with pytest.raises(InvalidConfig, match=f"workers is at least 1, got {workers}"):
        run_all(square_or_fail, [1], workers=workers)
