import json
from typing import Any

import pytest

from radixcache.errors import InvalidArgument
from runtime.lab import page_trace
from runtime.lab.capacities import CapacityStudy, study_capacities
from runtime.lab.optimum import optimum_tokens
from runtime.report import render_study
from runtime.report.study_curve import curve_study
from runtime.simulation import Setup
from runtime.workload import GENERATORS, Workload
from tests.unit.runtime.simulated import small_cost, turn, workload

CHAT = GENERATORS["chat"](num_sessions=15, mean_turns=3.0).generate(1)


def studied(load: Workload = CHAT, capacity: int = 20_000, **changes: Any) -> CapacityStudy:
    setup = Setup(cost=small_cost(), page_size=16, capacity_tokens=capacity)
    more = {"config": {"workload": {"name": "chat"}}, "seed": 1, "versions": {}, "num_points": 40}
    return study_capacities(load, setup, **(more | changes))


@pytest.fixture(scope="module")
def found() -> CapacityStudy:
    return studied()


def test_the_curve_rises_from_the_longest_request_to_the_ceiling(found):
    assert found.curve_tokens == sorted(set(found.curve_tokens))
    assert found.curve_hit_rate == sorted(found.curve_hit_rate)
    assert found.curve_hit_rate[-1] == pytest.approx(found.ceiling_hit_rate)


def test_the_optimum_lies_between_lru_and_the_ceiling(found):
    assert 2 <= len(found.optima) <= 12
    for each in [*found.optima, found.pool]:
        assert each.lru_hit_rate <= each.optimum_hit_rate <= found.ceiling_hit_rate + 1e-12
    trace = page_trace(CHAT, page_size=16)
    each = found.optima[3]
    assert each.optimum_hit_rate == optimum_tokens(trace, each.capacity_tokens) / found.prompt_tokens


def test_each_target_is_the_least_capacity_that_reaches_its_share(found):
    assert [target.share for target in found.targets] == [0.9, 0.95, 0.99]
    trace_curve = studied(num_points=2)
    for target in trace_curve.targets:
        assert target.reached.of_ceiling >= target.share
        less = studied(capacity=target.reached.capacity_tokens - 16).pool
        assert less.of_ceiling is None or less.of_ceiling < target.share


def test_gib_are_those_of_the_model(found):
    per_token = small_cost().model.kv_bytes_per_token("bf16")
    assert found.pool.gib == pytest.approx(20_000 * per_token / 2**30)


def test_a_pool_too_small_for_the_longest_request_is_warned_of():
    found = studied(capacity=160)
    assert (found.pool.lru_hit_rate, found.pool.optimum_hit_rate) == (None, None)
    assert "less than the longest request needs" in curve_study(found).warnings[0]


def test_where_nothing_can_be_found_there_are_no_targets():
    found = studied(workload((0.0, [turn(0, 40)]), (1.0, [turn(100, 40)])))
    assert (found.targets, found.ceiling_hit_rate, found.pool.of_ceiling) == ([], 0.0, None)
    assert render_study(curve_study(found))


def test_the_same_study_has_the_same_bytes(found):
    assert studied().to_json() == found.to_json()
    document = json.loads(found.to_json())
    assert (document["schema"], document["schema_version"]) == ("radixcache.curve", 1)
    assert len(document["curve_tokens"]) == len(document["curve_hit_rate"])


def test_a_study_becomes_a_page_with_a_logarithmic_figure(found):
    study = curve_study(found)
    assert study.figures[0].layout["xaxis"]["type"] == "log"
    assert {trace["name"] for trace in study.figures[0].data} == {
        "ceiling",
        "optimum",
        "LRU",
        "modelled pool",
    }
    assert [row[0] for row in study.sheets[0].rows] == sorted(
        (row[0] for row in study.sheets[0].rows), key=lambda text: int(text.replace(",", ""))
    )
    page = render_study(study)
    assert page.lstrip().startswith("<!doctype html>")
    assert "default-src 'none'" in page


def test_progress_is_told_for_each_optimum_and_the_pool():
    told = []
    studied(num_optima=4, on_progress=lambda name, done: told.append((name, done)))
    assert told == [("optimum", 1)] * 5


def test_a_workload_of_no_request_is_refused():
    with pytest.raises(InvalidArgument, match="has no request"):
        studied(workload())
    with pytest.raises(InvalidArgument, match="got 1 and 12"):
        studied(num_points=1)
