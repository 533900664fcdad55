"""Exact results of a small trace. Where a change is meant: `pytest tests/golden --update-golden`."""

import json
from itertools import product
from typing import Any

import pytest

from radixcache import EVICTION_POLICIES
from scheduler import QUEUE_POLICIES
from tests.golden.make_trace import make
from tests.golden.replay import EXPECTED, read_trace, replay

CASES = [f"{eviction}, {policy}" for eviction, policy in product(EVICTION_POLICIES, QUEUE_POLICIES)]
CASES += [f"lru, {policy}, partial reuse" for policy in QUEUE_POLICIES]
CASES += [f"lru, {policy}, nothing shared in flight" for policy in QUEUE_POLICIES]


def run(case: str) -> dict[str, Any]:
    eviction, policy, *rest = case.split(", ")
    return replay(
        eviction,
        policy,
        partial_reuse="partial reuse" in rest,
        share_in_flight="nothing shared in flight" not in rest,
    )


@pytest.fixture(scope="module")
def expected(request) -> dict[str, Any]:
    if request.config.getoption("--update-golden"):
        EXPECTED.write_text(json.dumps({case: run(case) for case in CASES}, indent=1) + "\n")
    return json.loads(EXPECTED.read_text())


@pytest.mark.parametrize("case", CASES)
def test_results_are_exactly_what_they_were(case, expected):
    assert run(case) == expected[case]


def test_the_file_holds_these_cases_and_no_other(expected):
    assert sorted(expected) == sorted(CASES)


def test_the_trace_is_what_its_maker_makes():
    assert read_trace() == make()


def test_the_trace_shows_everything_that_may_change(expected):
    met = {name for counts in expected.values() for name, number in counts.items() if number}
    assert {"matched tokens", "copied tokens", "evicted pages", "duplicate pages", "preemptions"} <= met
    assert len({counts["plans"] for counts in expected.values()}) >= 5
